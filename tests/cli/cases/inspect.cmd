exg inspect fixtures/mlp.pt2

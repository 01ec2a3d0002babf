exg inspect fixtures/mlp.pt2 --dot

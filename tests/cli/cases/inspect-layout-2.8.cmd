exg inspect fixtures/mlp.layout-2.8.pt2

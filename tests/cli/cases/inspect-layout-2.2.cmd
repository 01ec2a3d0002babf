exg inspect fixtures/mlp.layout-2.2.pt2

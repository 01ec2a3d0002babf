exg diff fixtures/mlp.pt2 fixtures/mlp.layout-2.8.pt2

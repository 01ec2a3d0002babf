exg diff fixtures/mlp.pt2

exg diff fixtures/mlp.pt2 fixtures/nothing.pt2

exg diff fixtures/mlp.pt2 fixtures/bad/VAL-004.pt2

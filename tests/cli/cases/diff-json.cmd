exg diff fixtures/mlp.pt2 fixtures/tied.pt2 --json

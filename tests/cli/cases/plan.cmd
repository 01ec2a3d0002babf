exg plan fixtures/mlp.pt2

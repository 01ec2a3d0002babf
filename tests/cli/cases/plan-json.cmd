exg plan fixtures/mlp.pt2 --json

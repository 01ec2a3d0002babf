exg verify fixtures/mlp.pt2 --json --sarif

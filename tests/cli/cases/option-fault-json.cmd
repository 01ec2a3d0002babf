exg verify fixtures/mlp.pt2 --mesh 2 --json

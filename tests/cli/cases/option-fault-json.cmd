exg verify fixtures/mlp.pt2 --place data --json

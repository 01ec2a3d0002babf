exg plan fixtures/mlp.pt2 --mesh 3x2 --place data,tensor --check --json

exg convert fixtures/mlp.pt2 x.pt2 --dry-run --json

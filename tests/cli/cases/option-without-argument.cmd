exg run fixtures/mlp.pt2 --output

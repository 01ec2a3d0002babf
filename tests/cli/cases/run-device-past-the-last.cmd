exg run fixtures/mlp.pt2 --device strict:64 --json

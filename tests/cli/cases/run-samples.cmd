exg run fixtures/mlp.pt2 | cut -d" " -f1-3

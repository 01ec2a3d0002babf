exg run fixtures/mlp.pt2 --json --frobnicate

exg run fixtures/mlp.pt2 --frobnicate

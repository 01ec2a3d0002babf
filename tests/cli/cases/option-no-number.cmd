exg run fixtures/mlp.pt2 --rtol soft

exg run fixtures/mlp.pt2 --ops fixtures/mlp.pt2

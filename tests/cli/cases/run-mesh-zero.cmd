exg run fixtures/mlp.pt2 --mesh 0

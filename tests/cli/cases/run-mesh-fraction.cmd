exg run fixtures/mlp.pt2 --mesh 2.5

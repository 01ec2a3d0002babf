exg run fixtures/mlp.pt2 --mesh 2xx2

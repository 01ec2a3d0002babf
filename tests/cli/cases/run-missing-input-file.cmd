exg run fixtures/mlp.pt2 --input no/such.npy

exg inspect fixtures/mlp.pt2 --node relu

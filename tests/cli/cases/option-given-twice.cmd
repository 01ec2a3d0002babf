exg run fixtures/mlp.pt2 --repeat 2 --repeat 3

exg inspect fixtures/mlp.pt2 --graph --json

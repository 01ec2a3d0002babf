exg inspect fixtures/mlp.pt2 --list-weights --sort colour

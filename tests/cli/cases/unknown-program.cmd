exg inspect fixtures/mlp.pt2 --program other

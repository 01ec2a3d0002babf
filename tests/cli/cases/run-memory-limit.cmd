exg run fixtures/mlp.pt2 --memory-limit 500

exg plan fixtures/mlp.pt2 --memory-limit 100K | head -2

exg plan fixtures/mlp.pt2 --mesh 2 --memory-limit 700 --place auto | head -2

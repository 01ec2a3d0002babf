exg plan fixtures/mlp.pt2 --mesh 2x2 --place data,tensor | head -15

exg convert fixtures/mlp.pt2

exg plan fixtures/mlp.pt2 --device gpu

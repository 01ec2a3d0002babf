exg inspect fixtures/mlp.pt2 --model-explorer

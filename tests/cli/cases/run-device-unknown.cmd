exg run fixtures/mlp.pt2 --device tpu

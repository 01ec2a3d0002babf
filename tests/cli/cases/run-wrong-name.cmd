exg run fixtures/mlp.pt2 --input fixtures/lm.inputs.safetensors

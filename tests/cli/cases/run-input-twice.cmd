exg run fixtures/mlp.pt2 --input fixtures/mlp.inputs.safetensors --input fixtures/mlp.inputs.safetensors

exg run fixtures/mlp.pt2 --input fixtures/mlp.inputs.safetensors --threads 99999

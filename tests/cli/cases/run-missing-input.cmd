exg run fixtures/inplace.pt2 --input fixtures/mlp.inputs.safetensors

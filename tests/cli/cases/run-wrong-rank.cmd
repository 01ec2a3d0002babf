exg run fixtures/mlp.pt2 --input fixtures/convbn.inputs.safetensors

exg run fixtures/mlp.pt2 --input fixtures/mlp.inputs.safetensors --expect fixtures/mlp.expected.safetensors | tail -1

exg run fixtures/mlp.pt2 --input fixtures/weights/mlp.inputs.pt --expect fixtures/mlp.expected.safetensors

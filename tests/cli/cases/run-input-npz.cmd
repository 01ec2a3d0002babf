exg run fixtures/mlp.pt2 --input fixtures/weights/mlp.inputs.npz --expect fixtures/mlp.expected.safetensors

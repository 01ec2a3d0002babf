exg run fixtures/mlp.pt2 --input fixtures/mlp.inputs.safetensors --expect fixtures/mlp.expected.safetensors --device strict --mesh 2 --place tensor --repeat 3

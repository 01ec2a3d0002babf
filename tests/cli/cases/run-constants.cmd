exg run fixtures/constants.pt2 --input fixtures/constants.inputs.safetensors --expect fixtures/constants.expected.safetensors | tail -1

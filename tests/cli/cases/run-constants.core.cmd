exg run fixtures/constants.core.pt2 --input fixtures/constants.inputs.safetensors --expect fixtures/constants.expected.safetensors | tail -1

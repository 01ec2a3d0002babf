exg run fixtures/tied.pt2 --input fixtures/tied.inputs.safetensors --expect fixtures/tied.expected.safetensors | tail -1

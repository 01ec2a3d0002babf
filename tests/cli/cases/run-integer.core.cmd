exg run fixtures/integer.core.pt2 --input fixtures/integer.inputs.safetensors --expect fixtures/integer.expected.safetensors | tail -1

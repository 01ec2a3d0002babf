exg run fixtures/views.pt2 --input fixtures/views.inputs.safetensors --expect fixtures/views.expected.safetensors | tail -1

exg inspect fixtures/weights/nested.expected.safetensors

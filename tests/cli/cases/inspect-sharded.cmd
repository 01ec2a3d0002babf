exg inspect fixtures/weights/sharded.safetensors.index.json

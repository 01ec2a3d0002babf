exg convert fixtures/weights/sharded-00001-of-00002.safetensors $T/w.safetensors

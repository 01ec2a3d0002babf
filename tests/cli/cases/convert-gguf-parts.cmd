exg convert fixtures/weights/parts-00002-of-00003.gguf $T/w.safetensors && exg inspect $T/w.safetensors

cp fixtures/weights/parts-00002-of-00003.gguf $T && exg convert $T/parts-00002-of-00003.gguf $T/w.safetensors

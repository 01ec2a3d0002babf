exg convert fixtures/weights/little.gguf $T/out.safetensors && exg inspect $T/out.safetensors

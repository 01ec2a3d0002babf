exg inspect fixtures/weights/little.gguf

exg inspect fixtures/weights/big.gguf

exg convert fixtures/weights/nested.pt $T/out.safetensors --split 2Q

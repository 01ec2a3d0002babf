exg convert fixtures/weights/nested.pt $T/out.safetensors --exclude '*'

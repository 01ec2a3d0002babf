exg convert fixtures/weights/nested.pt $T/out.safetensors --split 40 && exg inspect $T/out.safetensors.index.json

exg convert fixtures/weights/stored.npz $T/m.safetensors && exg convert fixtures/weights/stored.npz $T/m.safetensors --split 30

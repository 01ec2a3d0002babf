exg convert fixtures/weights/stored.npz $T/m.safetensors --split 30 && exg convert fixtures/weights/stored.npz $T/m.safetensors --force

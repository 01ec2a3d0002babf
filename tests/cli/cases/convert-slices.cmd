exg convert fixtures/weights/slices $T/w.safetensors && exg inspect $T/w.safetensors | tail -2

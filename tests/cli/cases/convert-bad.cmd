exg convert fixtures/bad/VAL-004.pt2 $T/w.safetensors

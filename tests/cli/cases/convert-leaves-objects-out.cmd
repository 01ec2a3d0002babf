exg convert fixtures/bad/WGT-013.pt2 $T/w.safetensors

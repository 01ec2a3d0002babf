exg run fixtures/bad/NOD-001.pt2 --output $T/out.safetensors

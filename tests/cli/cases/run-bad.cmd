exg run fixtures/bad/NOD-017.pt2 --output $T/out.safetensors

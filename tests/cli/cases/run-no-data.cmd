exg run fixtures/bad/WGT-012.pt2 --output $T/out.safetensors

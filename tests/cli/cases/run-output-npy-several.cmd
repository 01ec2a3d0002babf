exg run fixtures/many.pt2 --input fixtures/many.inputs.safetensors --output $T/y.npy

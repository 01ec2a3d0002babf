exg run fixtures/mlp.pt2 --input fixtures/mlp.inputs.safetensors --output $T/y.npy && exg inspect $T/y.npy

exg run fixtures/mlp.pt2 --input fixtures/tied.inputs.safetensors --output $T/out.safetensors

exg run fixtures/mlp.pt2 --input fixtures/mlp.inputs.safetensors --dump $T/all.safetensors --nodes nosuch

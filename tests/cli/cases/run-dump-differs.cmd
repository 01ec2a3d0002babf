exg run fixtures/mlp.pt2 --fill zeros --dump $T/zeros.safetensors > $T/out; exg run fixtures/mlp.pt2 --fill ones --expect $T/zeros.safetensors 2>&1 | sed 's/differ; .*/differ/'

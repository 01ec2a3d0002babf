exg run fixtures/mlp.pt2 --output no/such/folder/out.safetensors > /dev/null

exg convert fixtures/mlp.pt2 no/such/folder/w.safetensors

exg compare fixtures/mlp.pt2 --fill random; exg compare fixtures/mlp.pt2 fixtures/mlp.inputs.safetensors

cat fixtures/mlp.pt2 | exg convert - $T/x.safetensors && exg diff fixtures/mlp.pt2 - < $T/x.safetensors

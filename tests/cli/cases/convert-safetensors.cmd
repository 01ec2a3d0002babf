exg convert fixtures/mlp.pt2 $T/w.safetensors && wc -c < $T/w.safetensors

head -c 6000 fixtures/mlp.pt2 > $T/a.pt2; exg convert $T/a.pt2 $T/w.safetensors

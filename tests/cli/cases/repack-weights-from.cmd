exg convert fixtures/mlp.pt2 $T/w.safetensors && exg repack fixtures/mlp.pt2 $T/new.exg --weights-from $T/w.safetensors && exg diff fixtures/mlp.pt2 $T/new.exg

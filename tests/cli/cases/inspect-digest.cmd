exg inspect fixtures/mlp.pt2 --digest sha256 && exg convert fixtures/mlp.pt2 $T/w.safetensors && exg inspect $T/w.safetensors --digest sha256 && exg inspect $T/w.safetensors --digest xxh3

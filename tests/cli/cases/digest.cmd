exg digest fixtures/mlp.pt2; exg convert fixtures/mlp.pt2 $T/m.exg && exg digest $T/m.exg --kind xxh3; exg digest fixtures/mlp.inputs.safetensors --threads 1; rm $T/m.exg

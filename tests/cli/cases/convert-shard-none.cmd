exg convert fixtures/mlp.inputs.safetensors $T/ranks --shard 0 --for fixtures/mlp.pt2

exg run --threads=1 --repeat=2 --input=fixtures/mlp.inputs.safetensors -- fixtures/mlp.pt2; exg verify -- --strict

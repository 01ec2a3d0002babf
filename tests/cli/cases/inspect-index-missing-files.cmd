printf '{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}' > $T/m.safetensors.index.json; exg inspect $T/m.safetensors.index.json

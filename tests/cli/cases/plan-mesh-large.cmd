exg plan fixtures/lm.core.static.pt2 --mesh 64x16 --place data,tensor --input fixtures/lm.inputs.safetensors | head -2

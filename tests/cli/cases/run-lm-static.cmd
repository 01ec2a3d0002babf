exg run fixtures/lm.train-ir.static.pt2 --input fixtures/lm.inputs.safetensors --expect fixtures/lm.expected.safetensors | tail -1

exg run fixtures/lm.core.static.pt2 --input fixtures/lm.t17.inputs.safetensors

exg run fixtures/lm.decode.pt2 --input fixtures/lm.decode.step0.inputs.safetensors --state fixtures/lm.decode.expected.safetensors

exg run fixtures/lm.core.dynamic.pt2 --input fixtures/lm.t200.inputs.safetensors --expect fixtures/lm.t200.expected.safetensors | tail -1

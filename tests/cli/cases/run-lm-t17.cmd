exg run fixtures/lm.core.dynamic.pt2 --input fixtures/lm.t17.inputs.safetensors --expect fixtures/lm.t17.expected.safetensors | tail -1

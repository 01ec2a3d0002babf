exg run fixtures/lm.core.dynamic.pt2 --input fixtures/lm.t1.inputs.safetensors --expect fixtures/lm.t1.expected.safetensors | tail -1

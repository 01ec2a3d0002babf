exg run fixtures/lm.core.static.pt2 --input fixtures/lm.inputs.safetensors --expect fixtures/lm.expected.safetensors --mesh 3 --place sequence | tail -1

: S004-24; exg run fixtures/mutate.core.pt2 --input fixtures/inplace.inputs.safetensors --expect fixtures/inplace.expected.safetensors | tail -1

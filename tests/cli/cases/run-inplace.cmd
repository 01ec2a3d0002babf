exg run fixtures/inplace.pt2 --input fixtures/inplace.inputs.safetensors --expect fixtures/inplace.expected.safetensors --state-output $T/state.safetensors | tail -1

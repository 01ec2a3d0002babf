exg run fixtures/convbn.pt2 --input fixtures/convbn.inputs.safetensors --expect fixtures/convbn.expected.safetensors --state-output $T/state.safetensors | tail -1

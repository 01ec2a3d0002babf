exg run fixtures/convbn.eval.pt2 --input fixtures/convbn.eval.inputs.safetensors --expect fixtures/convbn.eval.expected.safetensors | tail -1

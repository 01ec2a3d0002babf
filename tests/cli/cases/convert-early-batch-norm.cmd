exg convert fixtures/convbn.eval.pt2 $T/b.json; exg run $T/b.json --ignore-carry --input fixtures/convbn.eval.inputs.safetensors --expect fixtures/convbn.eval.expected.safetensors; rm $T/b.json

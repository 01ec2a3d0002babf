exg convert fixtures/mlp.pt2 $T/mlp.json; exg run $T/mlp.json --ignore-carry --input fixtures/mlp.inputs.safetensors --expect fixtures/mlp.expected.safetensors; rm $T/mlp.json # S002-99, S002-105

exg run fixtures/bf16.pt2 --input fixtures/bf16.inputs.safetensors --expect fixtures/bf16.expected.safetensors --rtol 1e-2 --atol 1e-2 | tail -1

exg run fixtures/lm.core.dynamic.pt2 --size s27=17 --fill fixtures/lm.t17.inputs.safetensors --expect fixtures/lm.t17.expected.safetensors | grep -v float32

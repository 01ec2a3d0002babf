exg run fixtures/mutate.core.pt2 --output $T/y.safetensors --state-output $T/y.safetensors

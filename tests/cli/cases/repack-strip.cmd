exg repack fixtures/lm.core.dynamic.pt2 $T/bare.exg --strip && exg run $T/bare.exg --input fixtures/lm.inputs.safetensors

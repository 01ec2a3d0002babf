exg inspect fixtures/lm.core.dynamic.pt2 --list-weights --sort size --filter 'blocks.0.*.weight'

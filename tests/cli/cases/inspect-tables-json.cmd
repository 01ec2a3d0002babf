exg inspect fixtures/lm.core.dynamic.pt2 --json --tree --depth 1 --list-weights --sort size --filter 'blocks.0.*.weight'

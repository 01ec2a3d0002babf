exg inspect fixtures/lm.core.dynamic.pt2 --tree --depth 3

exg inspect fixtures/lm.core.dynamic.pt2

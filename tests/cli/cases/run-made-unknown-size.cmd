exg run fixtures/lm.core.dynamic.pt2 --size batch=2

exg run fixtures/lm.core.dynamic.pt2 --size s27=999

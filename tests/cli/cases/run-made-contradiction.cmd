exg run fixtures/lm.core.dynamic.pt2 --shape tokens=1x5 --size s27=6

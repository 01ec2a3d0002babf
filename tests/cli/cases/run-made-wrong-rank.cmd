exg run fixtures/lm.core.dynamic.pt2 --shape tokens=1x2x3

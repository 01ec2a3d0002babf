exg run fixtures/lm.core.dynamic.pt2 --fill token=zeros

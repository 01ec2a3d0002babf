exg diff fixtures/lm.train-ir.static.pt2 fixtures/lm.train-ir.dynamic.pt2

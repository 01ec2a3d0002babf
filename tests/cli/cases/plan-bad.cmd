exg plan fixtures/bad/VAL-004.pt2

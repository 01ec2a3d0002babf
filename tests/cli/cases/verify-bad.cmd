exg verify fixtures/bad/VAL-004.pt2

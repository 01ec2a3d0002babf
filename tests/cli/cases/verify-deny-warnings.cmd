exg verify fixtures/bad/VAL-007.pt2 --deny warnings

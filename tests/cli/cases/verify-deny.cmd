exg verify fixtures/bad/VAL-007.pt2 --deny VAL-007

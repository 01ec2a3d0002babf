exg verify fixtures/bad/VAL-004.pt2 --allow VAL-004 && exg run fixtures/bad/VAL-004.pt2

exg verify fixtures/bad/VAL-007.pt2 --allow VAL-007

exg verify fixtures/bad/VAL-004.pt2 --sarif 2> /dev/null

exg verify fixtures/bad/SYM-006.pt2 2> /dev/null

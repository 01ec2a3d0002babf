exg verify fixtures/bad/NOD-017.pt2 2> /dev/null

exg verify fixtures/bad/NOD-001.pt2 --json

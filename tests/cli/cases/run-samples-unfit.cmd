exg run fixtures/bad/ARC-020.pt2

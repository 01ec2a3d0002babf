exg verify fixtures/archives/named.pt2

exg diff fixtures/archives/several.pt2 fixtures/archives/named.pt2

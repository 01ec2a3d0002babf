exg verify no/such.pt2

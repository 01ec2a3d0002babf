exg run fixtures/many.pt2 | cut -c1-24

exg inspect fixtures/archives/several.pt2 --digest xxh3

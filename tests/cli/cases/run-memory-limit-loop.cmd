exg run fixtures/slices.pt2 --memory-limit 1K

exg inspect fixtures/tied.pt2 --list-weights

exg patch fixtures fixtures/tied.pt2 $T/p

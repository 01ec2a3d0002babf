exg convert fixtures/newer/lists-2.15.pt2 $T/l.pt2 --for 2.11

exg convert fixtures/archives/several.pt2 $T/out.pt2 && exg diff fixtures/archives/several.pt2 $T/out.pt2 && exg inspect $T/out.pt2 | tail -7

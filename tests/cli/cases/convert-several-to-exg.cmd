exg convert fixtures/archives/several.pt2 $T/out.exg

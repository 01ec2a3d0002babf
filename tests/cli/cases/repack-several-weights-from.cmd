exg repack fixtures/archives/several.pt2 $T/bare.pt2 --strip && exg repack $T/bare.pt2 $T/out.pt2 --weights-from fixtures/archives/several.pt2 && exg diff fixtures/archives/several.pt2 $T/out.pt2

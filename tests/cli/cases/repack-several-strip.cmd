exg repack fixtures/archives/several.pt2 $T/out.pt2 --strip && exg diff fixtures/archives/several.pt2 $T/out.pt2

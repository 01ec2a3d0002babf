exg convert fixtures/archives/several.pt2 $T/out.exg --program other && exg diff $T/out.exg fixtures/archives/several.pt2 --program other

exg repack fixtures/mlp.pt2 $T/new.exg --byte-order middle

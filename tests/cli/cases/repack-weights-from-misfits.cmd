exg repack fixtures/mlp.pt2 $T/new.exg --weights-from fixtures/weights/nested.pt

exg convert fixtures/weights/nested.pt $T/out.pt2

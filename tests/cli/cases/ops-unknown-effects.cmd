exg run fixtures/operator_library/effects.pt2

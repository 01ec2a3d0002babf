exg run fixtures/operator_library/writes.core.pt2

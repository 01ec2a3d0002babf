exg verify fixtures/operator_library/writes.core.pt2

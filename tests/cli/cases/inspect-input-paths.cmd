exg inspect fixtures/constants.pt2 | grep options

exg inspect fixtures/convbn.core.pt2 --node 3 | head -8

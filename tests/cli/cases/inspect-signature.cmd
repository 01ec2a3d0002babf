exg inspect fixtures/convbn.pt2 --signature

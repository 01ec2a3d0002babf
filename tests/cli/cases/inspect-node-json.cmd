exg inspect fixtures/convbn.pt2 --node relu --json

exg plan fixtures/convbn.pt2 --device strict-host --json

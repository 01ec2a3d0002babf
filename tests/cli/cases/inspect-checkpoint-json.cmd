exg inspect fixtures/weights/nested.pt --json

exg inspect fixtures/weights/nested.pt --filter 'nope*' --tree

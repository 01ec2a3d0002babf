cat fixtures/weights/nested.pt | exg inspect - | head -2

exg inspect fixtures/weights/stored.npz

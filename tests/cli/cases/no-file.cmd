exg run

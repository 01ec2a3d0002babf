exg run --help

exg --help

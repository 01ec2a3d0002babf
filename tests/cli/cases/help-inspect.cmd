exg inspect --help

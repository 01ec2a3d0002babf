exg explain --help

exg devices --help

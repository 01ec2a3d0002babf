exg plan --help

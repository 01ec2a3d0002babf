exg convert --help

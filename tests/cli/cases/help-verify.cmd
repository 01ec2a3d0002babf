exg verify --help

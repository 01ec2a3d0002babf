exg diff --help

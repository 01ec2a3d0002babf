exg repack --help

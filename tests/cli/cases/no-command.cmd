exg

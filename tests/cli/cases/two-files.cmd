exg inspect a b

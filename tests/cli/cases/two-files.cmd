exg plan a b

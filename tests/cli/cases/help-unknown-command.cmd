exg help nosuch

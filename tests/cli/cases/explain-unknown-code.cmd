exg explain NOPE-1

exg explain VAL-004

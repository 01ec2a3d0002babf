exg frobnicate 2>&1 | head -1

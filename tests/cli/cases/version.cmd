exg --version | sed 's/[0-9.]*$//; s/ not in this build//; s/ *in$//' | head -1

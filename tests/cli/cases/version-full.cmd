exg --version > /dev/full

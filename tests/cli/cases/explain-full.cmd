exg explain --list > /dev/full

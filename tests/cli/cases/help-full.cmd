exg help run > /dev/full

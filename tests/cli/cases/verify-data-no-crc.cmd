exg verify fixtures/archives/no_crc.pt2 --data && exg convert fixtures/archives/no_crc.pt2 $T/out.pt2 && exg verify $T/out.pt2 --data

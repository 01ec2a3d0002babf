exg repack fixtures/lm.decode.pt2 $T/m.exg --compress zstd --resume && exg verify $T/m.exg --data

exg repack fixtures/lm.decode.pt2 $T/m.exg --weights external --split 100K --compress zstd && exg verify $T/m.exg --data && exg diff fixtures/lm.decode.pt2 $T/m.exg

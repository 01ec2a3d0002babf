exg run fixtures/tied.pt2 --fill ones -o $T/y.npy > $T/out; exg run fixtures/tied.pt2 --input x=$T/y.npy; exg run fixtures/tied.pt2 --input $T/y.npy; exg run fixtures/examples.pt2 --input $T/y.npy

exg patch fixtures/mlp.pt2 fixtures/tied.pt2 $T/p > $T/log; exg inspect $T/p | sed "s|$T|T|" > $T/log 2>&1; rm $T/p $T/log; exg inspect tests/fuzz/corpus/patch/new

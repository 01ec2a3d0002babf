exg patch fixtures/mlp.pt2 fixtures/tied.pt2 $T/p > $T/log; exg patch --apply fixtures/tied.pt2 $T/p $T/out; code=$?; rm $T/p $T/log; exit $code

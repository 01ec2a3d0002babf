exg patch fixtures/mlp.pt2 fixtures/tied.pt2 $T/p --json; rm $T/p

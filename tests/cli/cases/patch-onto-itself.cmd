cp fixtures/mlp.pt2 $T/m; exg patch --apply $T/m fixtures/tied.pt2 $T/m

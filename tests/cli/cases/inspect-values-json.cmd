exg repack fixtures/mlp.pt2 $T/half.pt2 --strip --splat 0.5 && exg inspect $T/half.pt2 --list-weights --values --json --filter up.bias; rm $T/*

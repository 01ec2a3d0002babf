cp fixtures/mlp.pt2 $T/m.pt2; exg run $T/m.pt2 --output $T/../t/m.pt2; code=$?; cmp fixtures/mlp.pt2 $T/m.pt2 || exit 1; exit $code

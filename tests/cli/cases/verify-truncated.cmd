head -c 6000 fixtures/mlp.pt2 > $T/a.pt2; exg verify $T/a.pt2; code=$?; rm $T/a.pt2; exit $code

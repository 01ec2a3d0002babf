{ head -c 100 fixtures/mlp.pt2; printf X; tail -c +102 fixtures/mlp.pt2; } > $T/a.pt2; exg verify $T/a.pt2 --data; code=$?; rm $T/a.pt2; exit $code

head -c 1000000 fixtures/lm.core.static.pt2 > $T/a.pt2; exg verify $T/a.pt2; code=$?; rm $T/a.pt2; exit $code

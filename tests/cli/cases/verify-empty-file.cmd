: > $T/a.pt2; exg verify $T/a.pt2; code=$?; rm $T/a.pt2; exit $code

exg verify fixtures/bad/VAL-001.pt2 --json 2> $T/err; code=$?; rm $T/err; exit $code

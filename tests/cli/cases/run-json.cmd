exg run fixtures/mlp.pt2 --json --stats > $T/out; code=$?; if command -v python3 > /dev/null; then python3 -m json.tool $T/out > /dev/null; fi; rm $T/out; exit $code

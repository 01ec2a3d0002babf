echo old > $T/w.safetensors; exg convert fixtures/bad/VAL-004.pt2 $T/w.safetensors; code=$?; cat $T/w.safetensors; exit $code

cp fixtures/mlp.pt2 $T/bad.pt2 && printf X | dd of=$T/bad.pt2 bs=1 seek=900 conv=notrunc 2> /dev/null; exg inspect $T/bad.pt2 --digest sha256 ; code=$?; rm -f $T/bad.pt2; (exit $code)

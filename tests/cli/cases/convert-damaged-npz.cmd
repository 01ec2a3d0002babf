cp fixtures/weights/stored.npz $T/bad.npz && printf X | dd of=$T/bad.npz bs=1 seek=200 conv=notrunc 2> /dev/null; exg convert $T/bad.npz $T/out.safetensors ; code=$?; rm -f $T/bad.npz; (exit $code)

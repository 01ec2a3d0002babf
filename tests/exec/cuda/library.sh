#!/bin/sh
# library.sh EXG CC INCLUDE - the kernel for a GPU that a library of operators gives as a text runs there,
# with the results of PyTorch; what is wrong with one is told. INCLUDE has exg's headers.
set -u
exg=$1 cc=$2 include=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/exg-library.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
plain=fixtures/operator_library/plain
failed=0

fail()
{
    echo "FAILED: $1"
    failed=1
}

# build NAME [EXPRESSION]: mylib.c, changed by sed
build()
{
    sed "${2:-}" examples/operators/mylib.c > "$work/$1.c"
    "$cc" -shared -fPIC -I "$include" "$work/$1.c" -o "$work/$1.so" -lm || fail "$1 does not compile"
}

# run NAME: its output is in $work/out
run()
{
    EXG_STANDIN_LOG=$work/log "$exg" run $plain.pt2 --ops "$work/$1.so" --input $plain.inputs.safetensors \
        --expect $plain.expected.safetensors --device cuda > "$work/out" 2>&1
}

# told NAME TEXT...: it is refused, and each text is told
told()
{
    name=$1
    shift
    run "$name" && fail "$name runs"
    for text in "$@"; do
        grep -q "$text" "$work/out" || fail "$name: not told: $text"
    done
}

build whole
run whole || fail "it differs: $(cat "$work/out")"
[ "$(grep -c 'cuLaunchKernel soft_threshold' "$work/log")" = 2 ] || fail "the text is not what ran"

build without 's/\.device_[a-z]* = [a-z_"]*,*//; s/\.kernel = soft_threshold,/.kernel = soft_threshold/'
rm -f "$work/log"
run without || fail "without a text it differs: $(cat "$work/out")"
grep -q 'cuLaunchKernel soft_threshold' "$work/log" && fail "there is no text, and it runs"

build host 's/numbers.limit < 0/numbers.limit >= 0/'
rm -f "$work/log"
run host || fail "left to the host it differs: $(cat "$work/out")"
grep -q 'cuLaunchKernel soft_threshold' "$work/log" && fail "the library leaves it to the host, and it is launched"

build broken 's/long long i = /long long i == /'
told broken DEV-007 'device text of torch.ops.mylib.soft_threshold.default'
build nameless 's/\.device_entry = "soft_threshold"/.device_entry = "soft"/'
told nameless 'DEV-' 'finding a kernel'
build half 's/\.device_entry = "soft_threshold",//'
told half LIB-005 'give all three'
build wide 's/launch->parameter_bytes = sizeof(numbers)/launch->parameter_bytes = 4000/'
run wide || fail "more parameters than there is room for are not left to the host: $(cat "$work/out")"
exit $failed

#!/bin/sh
# gpu.sh [BUILD] - what needs a GPU, in one command, and writes tests/bench/results/gpu.md:
#
#   kernels    the kernels' own tests on the device
#   corpus     every case of the operator corpus, computed on the device
#   programs   the archives of fixtures/ with their expected outputs
#   times      a program by `exg run --repeat`, on the host and on the device
#
# Exit status: 0 all passed; 1 something failed; 2 there is no GPU.
set -u
build=${1:-build/release}
exg=$build/cli/exg
out=tests/bench/results/gpu.md
work=$(mktemp -d "${TMPDIR:-/tmp}/exg-gpu.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

"$exg" devices > "$work/devices" 2>&1
if ! grep -q '^cuda  *[0-9]' "$work/devices"; then
    cat "$work/devices"
    echo "no GPU: nothing was run"
    exit 2
fi
mkdir -p "$(dirname "$out")"
{
    echo "# exg on a GPU"
    echo
    grep '^cuda' "$work/devices"
    echo "$(uname -sm), $(git rev-parse --short HEAD 2> /dev/null)"
    echo
    echo "| what | result | seconds |"
    echo "|---|---|---|"
} > "$out"

# step NAME COMMAND...
step()
{
    name=$1
    shift
    begin=$(date +%s)
    if "$@" > "$work/out" 2>&1; then
        result=passed
    else
        result=FAILED
        failed=$((failed + 1))
        tail -20 "$work/out"
    fi
    echo "| $name | $result | $(($(date +%s) - begin)) |" | tee -a "$out"
}

for family in attention convolution draw index matmul move norm pointwise reduce; do
    step "kernels: $family" env EXG_KERNEL_DEVICE=cuda "$build/tests/test_exec_kernels_$family"
done
step "corpus" env EXG_TEST_DEVICE=cuda "$build/tests/test_exec_corpus"
step "programs" sh tests/exec/cuda/whole.sh "$exg"
for device in cpu cuda; do
    step "lm, 50 runs, $device" "$exg" run fixtures/lm.core.static.pt2 \
        --input fixtures/lm.inputs.safetensors --device "$device" --repeat 50 --stats
    sed 's/^/    /' "$work/out" | tail -12 >> "$out"
done
exit $((failed > 0))

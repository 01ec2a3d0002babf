#!/bin/sh
# whole.sh EXG [PRODUCT] - every archive of fixtures/ with its inputs and expected outputs, by
# `exg run --device cuda` on whatever CUDA the loader finds. Run from the source root. PRODUCT is
# the call that stand-ins note for a product of matrices: "cuLaunchKernel gemm" unless given.
set -u
exg=$1
product=${2:-cuLaunchKernel gemm}
work=$(mktemp -d "${TMPDIR:-/tmp}/exg-whole.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
count=0
failed=0

# run NAME PROGRAM INPUTS EXPECTED ARGUMENT...
run()
{
    name=$1 program=$2 inputs=$3 expect=$4
    shift 4
    count=$((count + 1))
    if ! "$exg" run "$program" --input "$inputs" --expect "$expect" --device cuda "$@" \
        > "$work/out" 2>&1; then
        echo "FAILED: $name"
        tail -5 "$work/out"
        failed=$((failed + 1))
    fi
}

EXG_STANDIN_LOG=$work/log
export EXG_STANDIN_LOG
for expected in fixtures/*.expected.safetensors; do
    stem=${expected%.expected.safetensors}
    for file in "$stem.pt2" "$stem.core.pt2"; do
        if [ -f "$file" ] && [ -f "$stem.inputs.safetensors" ]; then
            case $stem in
            */norms) set -- --rtol 3e-2 --atol 3e-2 ;; # PyTorch rounds the means themselves
            *) set -- ;;
            esac
            run "$file" "$file" "$stem.inputs.safetensors" "$expected" "$@"
        fi
    done
done
for kind in core.static core.dynamic train-ir.static; do
    run "lm.$kind" "fixtures/lm.$kind.pt2" fixtures/lm.inputs.safetensors \
        fixtures/lm.expected.safetensors
done
for length in 1 17 200; do
    run "lm of $length" fixtures/lm.core.dynamic.pt2 "fixtures/lm.t$length.inputs.safetensors" \
        "fixtures/lm.t$length.expected.safetensors"
done
# On a mesh. on_mesh MESH PLACE THROUGH OUTPUT: on stand-ins collectives go THROUGH what is said.
on_mesh()
{
    run "lm on a mesh, $*" fixtures/lm.core.static.pt2 fixtures/lm.inputs.safetensors \
        fixtures/lm.expected.safetensors --mesh "$1" --place "$2" --repeat 3 --stats --output "$4"
    if [ -f "$work/log" ] && ! grep -q "^collectives go through $3" "$work/out"; then
        echo "FAILED: collectives of $1 do not go through $3"
        failed=$((failed + 1))
    fi
}

export EXG_STANDIN_DEVICES
for place in "2 tensor" "3 tensor" "2x2 fsdp,tensor"; do
    EXG_STANDIN_DEVICES=1
    on_mesh "${place% *}" "${place#* }" "the device's memory" "$work/shared.safetensors"
    EXG_STANDIN_DEVICES=4
    on_mesh "${place% *}" "${place#* }" "NCCL" "$work/nccl.safetensors"
done
# The bits are those of collectives that go through the host.
EXG_STANDIN_NCCL_VERSION=20000
export EXG_STANDIN_NCCL_VERSION
on_mesh 2x2 fsdp,tensor "the host (NCCL is too old" "$work/host.safetensors"
if ! cmp "$work/shared.safetensors" "$work/host.safetensors"; then
    echo "FAILED: ranks on one device have other bits"
    failed=$((failed + 1))
fi
unset EXG_STANDIN_DEVICES EXG_STANDIN_NCCL_VERSION
for call in ncclAllReduce ncclAllGather ncclGroupEnd; do
    if [ -f "$work/log" ] && ! grep -q "^$call" "$work/log"; then
        echo "FAILED: nobody asked for $call"
        failed=$((failed + 1))
    fi
done
# The third run is a graph, asked for again.
count=$((count + 1))
if ! "$exg" run fixtures/mlp.pt2 --input fixtures/mlp.inputs.safetensors \
    --expect fixtures/mlp.expected.safetensors --device cuda --repeat 3 > "$work/out" 2>&1; then
    echo "FAILED: a graph"
    tail -5 "$work/out"
    failed=$((failed + 1))
fi
if [ -f "$work/log" ] && ! grep -q "cuGraphLaunch" "$work/log"; then
    echo "FAILED: no graph was asked for"
    failed=$((failed + 1))
fi
# What a loop carries (16 bytes an iteration, one result of as many) stays on the device.
if [ -f "$work/log" ]; then
    mv "$work/log" "$work/before"
    run "a loop" fixtures/loops.pt2 fixtures/loops.inputs.safetensors \
        fixtures/loops.expected.safetensors
    out=$(grep -c '^cuMemcpyDtoHAsync 16$' "$work/log")
    within=$(grep -c '^cuMemcpyDtoDAsync 16$' "$work/log")
    if [ "$out" -ne 1 ] || [ "$within" -lt 3 ]; then
        echo "FAILED: a loop's values leave the device ($out times, $within within)"
        failed=$((failed + 1))
    fi
    mv "$work/before" "$work/log"
fi
# Were it the host that computed, all would pass too.
for call in "$product" "cuLaunchKernel attention" "cuLaunchKernel normalize" \
    "cuLaunchKernel pointwise"; do
    if [ -f "$work/log" ] && ! grep -q "^$call " "$work/log"; then
        echo "FAILED: no program asked for $call"
        failed=$((failed + 1))
    fi
done
echo "$count programs, $failed failed"
[ "$count" -gt 20 ] && [ "$failed" -eq 0 ]

#!/bin/sh
# step.sh EXG DRIVER LIBRARIES - what one token of a decoder costs, in the stand-ins' notes: launches, and bytes over the bus.
# fixtures/lm.decode.pt2: 2 layers of the form of Llama, with a cache of its own. A number may go down, and is then written here.
#
#                    now    floor, and what is in between
#   launches a layer  13    10: 7 products, 2 norms, 1 attention; rope of queries and keys 1, silu and its product 1, a row of each cache 1
#   bytes up          16    16: the token and its position
#   bytes down      1520    512: a row of logits; notes of faults, 24 bytes for each of 42 steps
#   graphs, waits      1    1
set -eu
exg=$1 driver=$2 libraries=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/exg-step.XXXXXX")
trap 'rm -rf "$work"' EXIT
failed=0

EXG_STANDIN_LOG="$work/log" LD_LIBRARY_PATH="$driver:$libraries" XDG_CACHE_HOME="$work" "$exg" run fixtures/lm.decode.pt2 \
    --input fixtures/lm.decode.step0.inputs.safetensors --device cuda --repeat 4 > "$work/out"

expect() # what, its number, at most
{
    if [ "$2" -gt "$3" ]; then
        echo "FAILED: $1: $2, more than $3"
        failed=1
    elif [ "$2" -lt "$3" ]; then
        echo "FAILED: $1: $2 by now, write it here in place of $3"
        failed=1
    fi
}

# The graph: all that one run asks for; the last run: what is asked for from the last graph's launch on, and before it.
launches=$(sed -n 's/^cuGraphInstantiate 0 of //p' "$work/log")
products=$(sed -n '/^cuStreamBeginCapture/,/^cuStreamEndCapture/p' "$work/log" | grep -c '^cublasLtMatmul')
expect "launches of a step" "$launches" 36
expect "products of a step" "$products" 15

awk '/^cuGraphLaunch/ { graphs++ } { line[NR] = $0; at[NR] = graphs } END { for (i = 1; i <= NR; i++) if (at[i] == 2 || at[i] == 1) print line[i] }' \
    "$work/log" | awk '/^cuGraphLaunch/ { n++ } n == 1' > "$work/run" # from one launch to the next
sum() { sed -n "s/^$1 //p" "$work/run" | awk '{ bytes += $1 } END { print bytes + 0 }'; }
expect "bytes up" "$(sum cuMemcpyHtoDAsync)" 16
expect "bytes down" "$(sum cuMemcpyDtoHAsync)" 1520
expect "launches of graphs" "$(grep -c '^cuGraphLaunch' "$work/run")" 1
expect "launches beside the graph" "$(grep -c '^cuLaunchKernel\|^cublasLtMatmul' "$work/run" || true)" 0
expect "waits" "$(grep -c '^cuStreamSynchronize' "$work/run")" 1
expect "memory taken" "$(grep -c '^cuMemAlloc' "$work/run" || true)" 0
exit $failed

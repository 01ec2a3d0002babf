#!/bin/sh
# demo.sh - from a program that PyTorch saved to checked results on a mesh.
#
# Installs what is missing (Debian 12), builds the release, then: inspect, verify,
# convert to .exg, repack with zstd, run, run over 4 ranks, compare both with
# PyTorch's recorded outputs. May be run again at no cost. EXG=/usr/bin/exg: with a command that is
# there, nothing is installed or built.
set -eu
cd "$(dirname "$0")/.."
exg=${EXG:-build/release/cli/exg}
if [ -z "${EXG:-}" ]; then
    . tests/install.sh
    # shellcheck disable=SC2086
    need_packages $BUILD_PACKAGES

    echo "== building (build/release)"
    cmake --preset release -DEXG_TESTS=OFF >/dev/null
    cmake --build --preset release -j "$(nproc)" --target exg -- --quiet
fi
model=fixtures/lm.core.dynamic.pt2
inputs=fixtures/lm.inputs.safetensors
expected=fixtures/lm.expected.safetensors
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

echo "== inspect: a language model exported by PyTorch"
"$exg" inspect "$model" | head -n 12
echo "== verify"
"$exg" verify "$model"
echo "== convert and repack"
"$exg" convert "$model" "$work/lm.exg"
"$exg" repack "$work/lm.exg" "$work/lm.zstd.exg" --compress zstd
"$exg" verify "$work/lm.zstd.exg" --data

row() { # name, file, options
    name="$1"
    file="$2"
    shift 2
    if line="$("$exg" run "$file" --input "$inputs" --expect "$expected" --rtol 1e-4 --atol 1e-4 \
        --repeat 20 --stats --output "$work/out.safetensors" "$@")"; then
        verdict="as PyTorch"
    else
        verdict="DIFFERS"
    fi
    median="$(echo "$line" | sed -n 's/.*median \([^,]*\),.*/\1/p')"
    moved="$(echo "$line" | sed -n 's/^moved \([0-9]*\) bytes.*/\1/p')"
    bytes="$(wc -c <"$file")"
    printf '%-34s %10s %12s %12s   %s\n' "$name" "$bytes" "$median" "$moved" "$verdict"
    [ "$verdict" = "as PyTorch" ] && [ -n "$median" ] && [ -n "$moved" ]
}

echo "== run"
printf '%-34s %10s %12s %12s   %s\n' "" "file bytes" "median" "moved bytes" "outputs"
row "one rank, .pt2" "$model"
row "one rank, .exg" "$work/lm.exg"
row "one rank, .exg with zstd" "$work/lm.zstd.exg"
row "4 ranks, tensor parallel, .pt2" "$model" --mesh 4 --place tensor
row "4 ranks, tensor parallel, .exg" "$work/lm.zstd.exg" --mesh 4 --place tensor
echo "== done: every output equals PyTorch's within 1e-4"

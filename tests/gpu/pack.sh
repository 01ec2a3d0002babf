#!/bin/sh
# pack.sh [BUILD] [PACK.tar.xz] - what the runs on a GPU need beside the source tree, for a machine
# that has no compiler for C, none of our libraries and little time: the binaries, the shared
# libraries that are not everywhere, and all kernels compiled for ARCHITECTURES ("90"; "": none).
#
# Kernels are compiled by the real NVRTC, found as exg finds it (PYTHON's wheels, CUDA_HOME), and
# asked for on the stand-in of the driver, whose launches of them fail: that is expected.
set -eu
build=${1:-build/release}
pack=${2:-gpu-pack.tar.xz}
work=$(mktemp -d "${TMPDIR:-/tmp}/exg-pack.XXXXXX")
trap 'rm -rf "$work"' EXIT
tests=${TESTS:-$(awk '!/^#/ {print $4}' tests/gpu/tests.txt | sort -u)}

mkdir -p "$work/gpu/cli" "$work/gpu/libexec" "$work/gpu/tests" "$work/gpu/lib" \
    "$work/gpu/cache" "$work/driver"
cp "$build/cli/exg" "$work/gpu/cli/"
for plugin in cuda lapack; do
    [ ! -f "$build/libexec/libexg_$plugin.so" ] || cp "$build/libexec/libexg_$plugin.so" "$work/gpu/libexec/"
done
for test in $tests; do
    cp "$build/tests/test_exec_$test" "$work/gpu/tests/"
done
cp "$build/tests/bench_device" "$work/gpu/tests/"
find "$work/gpu" -type f -exec strip {} +
for file in "$work"/gpu/cli/* "$work"/gpu/tests/* "$work"/gpu/libexec/*; do
    ldd "$file"
done | sed -n 's/^[[:space:]]*lib\(zstd\|xxhash\|deflate\|simdjson\|cmocka\|lapack\|tmglib\|blas\|openblas\|gfortran\|quadmath\)[^ ]* => \(\/[^ ]*\) .*/\2/p' |
    sort -u | while read -r library; do
    cp -L "$library" "$work/gpu/lib/"
done

cp -L "$build/tests/standin/libcuda.so.1" "$work/driver/"
for architecture in ${ARCHITECTURES-90}; do
    export XDG_CACHE_HOME="$work/gpu/cache" LD_LIBRARY_PATH="$work/driver"
    export EXG_STANDIN_ARCHITECTURE="$architecture"
    mkdir -p "$XDG_CACHE_HOME"
    for family in attention convolution draw index matmul move norm pointwise recurrent reduce weight_product; do
        EXG_KERNEL_DEVICE=cuda EXG_KERNEL_PREPARE_ONLY=1 EXG_KERNEL_ONE_OF="${ONE_OF:-64}" \
            "$build/tests/test_exec_kernels_$family" > /dev/null 2>&1 || :
    done
    for ranks in "" 3; do
        EXG_TEST_DEVICE=cuda EXG_CORPUS_MESH=$ranks "$build/tests/test_exec_corpus" > /dev/null 2>&1 || :
    done
    for program in fixtures/*.pt2; do
        "$build/cli/exg" plan "$program" --device cuda > /dev/null 2>&1 || :
    done
done
unset LD_LIBRARY_PATH
echo "$(find "$work/gpu/cache" -name '*.cubin' | wc -l) kernels compiled"
# The tests hold the same code, some 4 MB each: a window of all of it finds that again.
export XZ_OPT="${XZ_OPT-"--lzma2=preset=6,dict=192MiB"}"
tar -C "$work" -cJf "$pack" gpu
ls -l "$pack"

#!/bin/sh
# dry.sh BUILD DRIVER - a pack is made and run on the stand-ins of CUDA in DRIVER: a step that passes
# and one that fails are told as such; without a GPU nothing is run.
set -eu
build=$1 driver=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/exg-dry.XXXXXX")
trap 'rm -rf "$work"' EXIT
XZ_OPT=-0 TESTS=weights ARCHITECTURES="" sh tests/gpu/pack.sh "$build" "$work/pack.tar.xz" > /dev/null
cat > "$work/tests" << END
whole 60 - weights EXG_TEST_DEVICE=cuda
whole 60 - nosuch
END

# expect STATUS OUT: what run.sh ends with
expect()
{
    status=0
    TESTS=$work/tests sh tests/gpu/run.sh whole "$work/pack.tar.xz" "$2" > "$work/said" 2>&1 ||
        status=$?
    if [ $status -ne "$1" ]; then
        cat "$work/said"
        echo "FAILED: run.sh gives $status, not $1"
        exit 1
    fi
}

LD_LIBRARY_PATH=$driver expect 1 "$work/out"
grep -q '^| weights | passed' "$work/out/gpu.md"
grep -q '^| nosuch | FAILED' "$work/out/gpu.md"
grep -q nosuch "$work/out/failures.txt"
tar -tzf "$work/out/logs.tar.gz" | grep -q weights
mkdir "$work/none"
ln -s /dev/null "$work/none/libcuda.so.1" # no driver, wherever this runs
LD_LIBRARY_PATH=$work/none expect 2 "$work/nothing"

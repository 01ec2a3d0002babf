#!/bin/sh
# run.sh - installs what is missing, builds, runs the tests.
#
#   sh tests/run.sh            the release build's tests: under 8 minutes on 2 cores
#   sh tests/run.sh quick      those of them that are short: under 3, once it is built
#   sh tests/run.sh all        and address and undefined-behaviour sanitizers, thread
#                              sanitizer, fuzzers: all that needs no PyTorch
#   sh tests/run.sh ci         all, but of each build those that are short there, and
#                              fuzzers over what they found before alone
#   sh tests/run.sh interop    the tests against PyTorch 2.13, in build/venv; interop --all: the long ones too
#   sh tests/run.sh bench      the benchmarks (prints ratios, asserts nothing)
#   sh tests/run.sh coverage   which lines of the product the short tests run, by directory (gcov)
#   sh tests/run.sh mutation   is the product made wrong, does a test say so? (tests/mutation)
#
# May be run again at no cost: what is installed and built stays.
# EXG_FUZZ_SECONDS: how long each fuzzer runs (10).
set -eu
cd "$(dirname "$0")/.."
. tests/install.sh

mode="${1:-release}"
jobs="$(nproc)"

say() {
    echo "== $*"
}

build() { # preset target...
    preset="$1"
    shift
    say "building: $preset"
    cmake --preset "$preset" -DEXG_TESTS=ON >/dev/null # the demo leaves it off
    if [ $# -eq 0 ]; then
        cmake --build --preset "$preset" -j "$jobs" -- --quiet
    else
        cmake --build --preset "$preset" -j "$jobs" --target "$@" -- --quiet
    fi
}

run_tests() { # preset [ctest arguments]
    preset="$1"
    shift
    say "testing: $preset"
    ctest --test-dir "build/$preset" --output-on-failure -j "$jobs" "$@"
}

every_build() { # [ctest arguments]
    # shellcheck disable=SC2086 # a list of words
    need_packages $FUZZ_PACKAGES # the check of the layout comes with the first tests
    build release
    run_tests release "$@"
    build asan
    run_tests asan "$@"
    build tsan thread_tests
    run_tests tsan -L threads "$@"
}

fuzz() {
    seconds="${EXG_FUZZ_SECONDS:-10}"
    build fuzz fuzz_targets
    say "fuzzing: each target for $seconds s"
    mkdir -p build/fuzz-corpus
    failed=0
    for target in build/fuzz/tests/fuzz_*; do
        [ -x "$target" ] && [ -f "$target" ] || continue
        name="$(basename "$target" | sed 's/^fuzz_//')"
        echo "$target $name"
    done | xargs -P "$jobs" -n 2 sh tests/fuzz/run_one.sh "$seconds" || failed=1
    return "$failed"
}

interop() {
    need_packages python3 python3-venv python3-dev
    if [ ! -x build/venv/bin/python ] || ! build/venv/bin/python -c 'import torch, numpy, safetensors, gguf, cffi, wheel, setuptools' 2>/dev/null; then
        say "making a virtual environment with PyTorch 2.13.0 (build/venv)"
        python3 -m venv build/venv
        if ! build/venv/bin/pip install -q --no-compile torch==2.13.0 numpy safetensors gguf cffi wheel setuptools >/dev/null 2>&1; then
            echo "error: PyTorch 2.13.0 cannot be installed; the interop tests need it" >&2
            exit 1
        fi
    fi
    if ! build/venv/bin/python -c 'import torchao' 2>/dev/null &&
        ! build/venv/bin/pip install -q --no-compile --no-deps torchao==0.18.0 >/dev/null 2>&1; then
        say "torchao 0.18.0 cannot be installed: run_subclasses tests nothing"
    fi
    build release
    say "testing: interop"
    # Compiled modules are kept, whatever the caller's environment says, and not among the sources.
    PYTHONDONTWRITEBYTECODE="" PYTHONPYCACHEPREFIX="$PWD/build/pycache" \
        build/venv/bin/python tests/interop/all.py --exg build/release/cli/exg --jobs "$jobs" "$@"
}

# shellcheck disable=SC2086 # lists of words
need_packages $BUILD_PACKAGES $TEST_PACKAGES
case "$mode" in
release)
    build release
    run_tests release
    ;;
all)
    every_build
    fuzz
    ;;
ci)
    every_build -LE slow
    ;;
quick)
    build release
    run_tests release -LE slow
    ;;
interop)
    shift
    interop "$@"
    ;;
bench)
    # shellcheck disable=SC2086
    need_packages $BENCH_PACKAGES
    build release
    for bench in build/release/tests/bench_*; do
        case $bench in
        *_mpi) mpirun --allow-run-as-root --oversubscribe -n 2 "$bench" ;;
        *) [ -x "$bench" ] && "$bench" ;;
        esac
    done
    python3 tests/bench/weight_files.py --exg build/release/cli/exg
    ;;
mutation)
    need_packages python3
    python3 tests/mutation/mutation.py --count 60 --least 90 --room libexport/program --room libexport/verify \
        --room libexport/formats/early --room libexec/dtensor --room libexec/dispatch
    ;;
coverage)
    need_packages python3
    build coverage
    find build/coverage -name '*.gcda' -delete # of runs before
    run_tests coverage -LE slow -E '^(abi_export|recursion)$' # which would see what gcov adds
    python3 tests/coverage/coverage.py build/coverage
    ;;
*)
    echo "usage: sh tests/run.sh [release|quick|all|ci|interop|bench|mutation|coverage]" >&2
    exit 2
    ;;
esac
say "done: $mode"

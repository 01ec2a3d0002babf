#!/bin/sh
# gpu.sh [BUILD] - what needs a GPU, in one command, and writes tests/bench/results/gpu.md:
#
#   kernels      the kernels' own tests on the device
#   corpus       every case of the operator corpus, computed on the device, alone and on three ranks
#   collectives  of ranks that share the device
#   the engine   branches and loops, weights, DTensors of one operator at a time
#   programs     the archives of fixtures/ with their expected outputs, on one rank and on meshes
#   device       copies in and out beside PyTorch's pinned ones, the cost of asking for work
#   models       times beside PyTorch's on the same device, eager and compiled (models.py)
#
# PYTHON (python3) is one with PyTorch for CUDA; CUDA's libraries are taken from beside it where the
# loader finds none. Without such a PyTorch there are exg's own times alone.
#
# Exit status: 0 all passed; 1 something failed; 2 there is no GPU.
set -u
build=${1:-build/release}
python=${PYTHON:-python3}
exg=$build/cli/exg
out=tests/bench/results/gpu.md
work=$(mktemp -d "${TMPDIR:-/tmp}/exg-gpu.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

folders=$("$python" -c '
import pathlib, sys
found = [str(p) for f in sys.path for p in pathlib.Path(f or ".").glob("nvidia/*/lib")]
print(":".join(found))' 2> /dev/null)
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folders
export LD_LIBRARY_PATH

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
    grep -A 9 '^cuda' "$work/devices" | sed 's/^/    /'
    echo
    echo "$(uname -sm), commit $(git rev-parse --short HEAD 2> /dev/null), $(date -u +%Y-%m-%d)"
    "$python" -c 'import torch; print("PyTorch", torch.__version__)' 2> /dev/null
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

# table TITLE COMMAND...: what it prints goes into the result as it is.
table()
{
    printf '\n%s:\n\n' "$1" | tee -a "$out"
    shift
    if ! "$@" > "$work/out" 2> "$work/errors"; then
        failed=$((failed + 1))
        tail -20 "$work/errors"
        echo "    FAILED" | tee -a "$out"
    fi
    sed 's/^/    /' "$work/out" "$work/errors" | tee -a "$out"
}

for family in attention convolution draw index matmul move norm pointwise recurrent reduce; do
    step "kernels: $family" env EXG_KERNEL_DEVICE=cuda "$build/tests/test_exec_kernels_$family"
done
step "corpus" env EXG_TEST_DEVICE=cuda "$build/tests/test_exec_corpus"
step "collectives: ranks on one GPU" "$build/tests/test_exec_cuda_links" 'ranks_on_one_device*'
step "corpus, 3 ranks" env EXG_TEST_DEVICE=cuda EXG_CORPUS_MESH=3 "$build/tests/test_exec_corpus"
step "branches, loops" env EXG_TEST_DEVICE=cuda "$build/tests/test_exec_stretches"
step "weights" env EXG_TEST_DEVICE=cuda "$build/tests/test_exec_weights"
for test in dtensor dtensor_there dtensor_device redistribute dispatch autograd; do
    step "DTensors: $test" env EXG_TEST_DEVICE=cuda "$build/tests/test_exec_$test"
done
step "programs" sh tests/exec/cuda/whole.sh "$exg"
table "the device beside its kernels" "$build/tests/bench_device" cuda 1024
if "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2> /dev/null; then
    table "pinned copies by PyTorch" "$python" -c '
import time, torch
here = torch.ones(1 << 30, dtype=torch.uint8).pin_memory()
there = torch.empty_like(here, device="cuda")
times = []
for _ in range(8):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    there.copy_(here, non_blocking=True)
    torch.cuda.synchronize()
    times.append(time.perf_counter() - begin)
print(f"copies of 1024 MiB: in {(1 << 30) / sorted(times)[4] / 1e9:.2f} GB/s")'
    table "models, bf16" "$python" tests/bench/models.py --exg "$exg" --cache "$work/models" \
        --device cuda --threads 1 --dtype bf16 --against eager,inductor --rounds 3 \
        --only bert-b1,bert-b32,gpt2-prefill,gpt2-prefill-b32,gpt2-step,resnet50
else
    table "the language model, 50 runs" "$exg" run fixtures/lm.core.static.pt2 \
        --input fixtures/lm.inputs.safetensors --device cuda --repeat 50 --stats
fi
exit $((failed > 0))

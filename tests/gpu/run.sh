#!/bin/sh
# run.sh right|whole|fast PACK.tar.xz OUT - one of three runs on a machine with a GPU, each of
# under nine minutes, from the root of the source tree. PACK is made by pack.sh. Into the folder
# OUT go, as they come, gpu.md (a row for each step), failures.txt (what failed, the end of what
# it said) and, at the end, logs.tar.gz.
#
#   right   the archives of fixtures/, the kernels' own tests
#   whole   the operator corpus, alone and on ranks that share the GPU; sessions and DTensors;
#           compute-sanitizer over a part of the kernels
#   fast    times, beside PyTorch's on the same GPU where PYTHON (python3) has one
#
# tests.txt beside this file (TESTS) lists the tests of each part; JOBS (8) run at once.
#
# Exit status: 0 all passed; 1 something failed; 2 there is no GPU.
set -u
part=$1 pack=$2
EXG_GPU_OUT=$3
EXG_GPU_BUILD=${EXG_GPU_BUILD:-$(mktemp -d)}
export EXG_GPU_OUT EXG_GPU_BUILD
here=$(dirname "$0")
python=${PYTHON:-python3}
exg=$EXG_GPU_BUILD/cli/exg
out=$EXG_GPU_OUT
begin=$(date +%s)

# table NAME SECONDS COMMAND...: what it prints goes into the result as it is.
table()
{
    name=$1 limit=$2
    shift 2
    { echo; echo "$name:"; echo; timeout "$limit" "$@" 2>&1 | sed 's/^/    /'; echo; } |
        tee -a "$out/gpu.md"
}

mkdir -p "$out" "$EXG_GPU_BUILD/logs" || exit 1
tar -C "$EXG_GPU_BUILD" --strip-components=1 -xJf "$pack" || exit 1
export LD_LIBRARY_PATH="$EXG_GPU_BUILD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export XDG_CACHE_HOME="$EXG_GPU_BUILD/cache"
table devices 60 "$exg" devices
grep -q '^    cuda  *[0-9]' "$out/gpu.md" || exit 2

case $part in
right)
    table "the language model, 50 runs" 60 "$exg" run fixtures/lm.core.static.pt2 \
        --input fixtures/lm.inputs.safetensors --device cuda --repeat 50 --stats
    sh "$here/step.sh" 240 - programs sh tests/exec/cuda/whole.sh "$exg"
    ;;
fast)
    table "the device beside its kernels" 120 "$EXG_GPU_BUILD/tests/bench_device" cuda 1024
    table "operators beside PyTorch's" 400 "$python" "$here/speed.py" --exg "$exg" \
        --work "$EXG_GPU_BUILD" ${ONLY:+--only "$ONLY"}
    ;;
esac
sed -n "s/^$part  *//p" "${TESTS:-$here/tests.txt}" | tr -s ' ' |
    xargs -P "${JOBS:-8}" -L 1 sh "$here/step.sh"
echo "$part: $(($(date +%s) - begin)) s" | tee -a "$out/gpu.md"
tar -C "$EXG_GPU_BUILD" -czf "$out/logs.tar.gz" logs
! [ -s "$out/failures.txt" ]

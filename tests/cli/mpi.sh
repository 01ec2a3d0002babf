#!/bin/sh
# mpi.sh - ranks as processes give the bits of ranks as threads, and fail together.
#
#   mpi.sh EXG MPIEXEC
set -u
exg=$1 mpiexec=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/exg-mpi.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
faults=0

fault()
{
    echo "FAILED $*"
    faults=$((faults + 1))
}

same() # RANKS MESH PLACE ARGUMENT...
{
    ranks=$1 mesh=$2 place=$3
    shift 3
    rm -f "$work"/*.safetensors
    "$exg" run "$@" --mesh "$mesh" --place "$place" --output "$work/threads.safetensors" \
        --state-output "$work/threads-state.safetensors" > "$work/threads" || fault "threads: $*"
    timeout 60 "$mpiexec" -n "$ranks" "$exg" run "$@" --mesh "$mesh" --place "$place" \
        --output "$work/processes.safetensors" \
        --state-output "$work/processes-state.safetensors" > "$work/processes" || fault "processes: $*"
    cmp -s "$work/threads.safetensors" "$work/processes.safetensors" || fault "other outputs: $mesh $place $*"
    cmp -s "$work/threads-state.safetensors" "$work/processes-state.safetensors" || fault "another state: $mesh $place $*"
    cmp -s "$work/threads" "$work/processes" || fault "prints other things: $mesh $place $*"
}

same 4 4 tensor fixtures/lm.core.static.pt2 --input fixtures/lm.inputs.safetensors
same 4 2x2 data,tensor fixtures/lm.train-ir.dynamic.pt2 --input fixtures/lm.t17.inputs.safetensors
same 3 3 data fixtures/convbn.pt2
same 2 2 tensor fixtures/lm.decode.pt2 --input fixtures/lm.decode.step0.inputs.safetensors
same 4 2x2 auto fixtures/branch.pt2
same 3 3 data fixtures/loops.pt2

# As many ranks as there are processes, and no others.
timeout 60 "$mpiexec" -n 3 "$exg" run fixtures/mlp.pt2 --mesh 4 > "$work/out" 2> "$work/err" && fault "3 processes as a mesh of 4"
grep -q DTN-001 "$work/err" || fault "a mesh of 4 on 3 processes is not refused as such"

# One that cannot go on ends them all.
timeout 60 "$mpiexec" -n 3 sh -c 'if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ]; then kill -9 $$; fi; exec "$@"' sh \
    "$exg" run fixtures/mlp.pt2 > "$work/out" 2>&1
code=$?
[ "$code" -ne 0 ] && [ "$code" -ne 124 ] || fault "a killed rank: exit code $code"
echo "$faults faults"
[ "$faults" -eq 0 ]

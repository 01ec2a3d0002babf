#!/bin/sh
# mpi.sh - ranks as processes give the bits of ranks as threads, and fail together.
#
#   mpi.sh EXG MPIEXEC STANDIN
#
# STANDIN: where the stand-ins of CUDA's libraries lie.
set -u
exg=$1 mpiexec=$2 standin=$3
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
same 4 2x2 fsdp,tensor fixtures/lm.core.static.pt2 --input fixtures/lm.inputs.safetensors
same 4 2x2 fsdp,tensor fixtures/lm.core.static.pt2 --input fixtures/lm.inputs.safetensors --device strict
same 3 3 pipeline fixtures/mlp.pt2 --microbatches 2
same 4 2x2 pipeline,tensor fixtures/lm.core.static.pt2 --input fixtures/lm.inputs.safetensors
same 2 2 pipeline fixtures/convbn.eval.pt2 --microbatches 2 --schedule interleaved --device strict
same 3 3 sequence fixtures/lm.train-ir.dynamic.pt2 --input fixtures/lm.t17.inputs.safetensors

# A plan for processes says what one for as many threads says, and a run holds what it says.
for mesh in 4 2x2; do
    set -- fixtures/lm.core.static.pt2 --input fixtures/lm.inputs.safetensors --place tensor
    [ $mesh = 4 ] || set -- "$@" --mesh $mesh
    "$exg" plan fixtures/lm.core.static.pt2 --input fixtures/lm.inputs.safetensors --place tensor --mesh $mesh > "$work/threads" || fault "plan of threads: $mesh"
    timeout 60 "$mpiexec" -n 4 "$exg" plan "$@" > "$work/processes" || fault "plan of processes: $mesh"
    for pattern in "^memory of a rank: weights [0-9.]* [kM]B" "^mesh $mesh of [a-z]*, placement tensor" "  move "; do
        grep "$pattern" "$work/processes" | sed 's/, [0-9.]* [num]*s: /, T: /; s/processes/threads/; s/threads, \([a-z ,]*\):.*/\1/' > "$work/there"
        grep "$pattern" "$work/threads" | sed 's/, [0-9.]* [num]*s: /, T: /; s/threads, \([a-z ,]*\):.*/\1/' > "$work/here"
        [ -s "$work/there" ] && cmp -s "$work/here" "$work/there" || fault "plan of processes lacks '$pattern'"
    done
    held=$(timeout 60 "$mpiexec" -n 4 "$exg" plan "$@" --json | sed -n 's/.*"rank_weight_bytes": \([0-9]*\),.*/\1/p')
    timeout 60 "$mpiexec" -n 4 "$exg" run "$@" --stats | grep -q "weights $held bytes" || fault "--stats of a rank: not $held"
done

# What nodes give: all ranks watch them, one writes.
timeout 60 "$mpiexec" -n 2 "$exg" run fixtures/mlp.pt2 --place tensor --dump "$work/nodes.safetensors" > "$work/out" 2> "$work/err" || fault "--dump of processes"
"$exg" run fixtures/mlp.pt2 --expect "$work/nodes.safetensors" | grep -q "as expected" || fault "--dump of processes is not what nodes give"

# As many ranks as there are processes, and no others.
timeout 60 "$mpiexec" -n 3 "$exg" run fixtures/mlp.pt2 --mesh 4 > "$work/out" 2> "$work/err" && fault "3 processes as a mesh of 4"
grep -q DTN-001 "$work/err" || fault "a mesh of 4 on 3 processes is not refused as such"

# One that cannot go on ends them all.
timeout 60 "$mpiexec" -n 3 sh -c 'if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ]; then kill -9 $$; fi; exec "$@"' sh \
    "$exg" run fixtures/mlp.pt2 > "$work/out" 2>&1
code=$?
[ "$code" -ne 0 ] && [ "$code" -ne 124 ] || fault "a killed rank: exit code $code"

# refused RANKS CODE WORDS...: every rank that speaks says the code, none succeeds
refused()
{
    ranks=$1 want=$2
    shift 2
    timeout 60 "$mpiexec" -n "$ranks" sh -c 'rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; eval "$1"' \
        sh "$*" > "$work/out" 2> "$work/err"
    code=$?
    [ "$code" -ne 0 ] && [ "$code" -ne 124 ] || fault "$want: exit code $code: $*"
    grep -q "exg: $want" "$work/err" || fault "no $want: $*"
    others=$(grep -o 'exg: [A-Z]*-[0-9]*' "$work/err" | grep -v "$want\|COM-003" | sort -u)
    [ -z "$others" ] || fault "$others beside $want: $*"
}

# Another program, inputs of other sizes, another placement, another mesh: the same on every rank.
# differs RANKS WHAT WORDS...: refused with COM-009, and told is WHAT
differs()
{
    ranks=$1 what=$2
    shift 2
    refused "$ranks" COM-009 "$@"
    grep -q "COM-009: rank [0-9]* has not the same as rank [0-9]*: $what\$" "$work/err" || fault "not told that it is the $what: $*"
}

# What writes files is done once, by the first process.
timeout 60 "$mpiexec" -n 3 "$exg" convert fixtures/lm.core.dynamic.pt2 "$work/ranks.exg" 2> "$work/err" || fault "convert: $(cat "$work/err")"
"$exg" convert fixtures/lm.core.dynamic.pt2 "$work/alone.exg"
cmp -s "$work/ranks.exg" "$work/alone.exg" || fault "convert by processes writes another file"

# the same inputs, but for the last byte; the same weights without checksums, but for one
cp fixtures/mlp.inputs.safetensors "$work/other.inputs"
printf '\001' | dd of="$work/other.inputs" bs=1 seek=$(($(wc -c < "$work/other.inputs") - 1)) conv=notrunc 2> /dev/null
other=$work/other.inputs
"$exg" repack fixtures/mlp.pt2 "$work/zeros.exg" --strip > /dev/null || fault "repack --strip"
differs 3 'program, weights.*' 'f=mlp; [ $rank = 1 ] && f=tied; exec '"$exg"' run fixtures/$f.pt2'
differs 2 placement 'p=data; [ $rank = 1 ] && p=tensor; exec '"$exg"' run fixtures/mlp.pt2 --place $p'
differs 4 mesh 'm=2x2; [ $rank = 3 ] && m=4; exec '"$exg"' run fixtures/mlp.pt2 --mesh $m'
differs 2 'sizes of inputs, values of inputs' 'i=t17; [ $rank = 0 ] && i=t200; exec '"$exg"' run fixtures/lm.train-ir.dynamic.pt2 --input fixtures/lm.$i.inputs.safetensors'
differs 3 'values of inputs' 'i=fixtures/mlp.inputs.safetensors; [ $rank = 2 ] && i='"$other"'; exec '"$exg"' run fixtures/mlp.pt2 --input $i'
differs 2 seed 's=1; [ $rank = 1 ] && s=2; exec '"$exg"' run fixtures/mlp.pt2 --seed $s'
differs 2 options 's=1000; [ $rank = 1 ] && s=2000; exec '"$exg"' run fixtures/mlp.pt2 --loop-limit $s'
differs 2 weights 'f=fixtures/mlp.pt2; [ $rank = 1 ] && f='"$work"'/zeros.exg; exec '"$exg"' run $f --input fixtures/mlp.inputs.safetensors'
# An input that one rank alone is not given.
refused 3 INP-001 'i="--input fixtures/lm.inputs.safetensors"; [ $rank = 2 ] && i="--input fixtures/mlp.inputs.safetensors"; exec '"$exg"' run fixtures/lm.core.static.pt2 $i'

# Data that are at fault on one rank alone: the last divisor is 0, and rank 1 has it.
npy() # DTYPE SHAPE, then the bytes
{
    printf '\223NUMPY\001\000\166\000'
    printf '%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': $2, }"
}
{ npy '<i8' '(6, 5)'; head -c 240 /dev/zero; } > "$work/a.npy"
{ npy '<i4' '(5,)'; printf '\1\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0'; } > "$work/b.npy"
refused 2 RUN-001 "exec $exg run fixtures/integer.pt2 --place sequence --input a=$work/a.npy --input b=$work/b.npy"
[ "$(grep -c "^  where: rank 1\\.node '" "$work/err")" -eq 2 ] || fault "not every rank names the rank whose data are at fault"

# Weights that are damaged where one rank alone reads them: all hear of it, before they compute.
"$exg" convert fixtures/lm.core.dynamic.pt2 "$work/good.exg" --compress zstd > /dev/null
cp "$work/good.exg" "$work/damaged.exg"
for at in $(seq 400000 4096 1200000); do
    printf X | dd of="$work/damaged.exg" bs=1 seek="$at" conv=notrunc 2> /dev/null
done
# (mpirun ends the others when one has ended: they wait for one another.)
refused 3 EXG-022 'f=good; [ $rank = 1 ] && f=damaged; '"$exg"' run '"$work"'/$f.exg --input fixtures/lm.t200.inputs.safetensors --place tensor; code=$?; sleep 3; exit $code'
[ "$(grep -c "EXG-022" "$work/err")" -eq 3 ] || fault "not every rank hears of damaged weights"

# Bytes that ranks read parts of are compared by one of them, those that all read whole by each.
damage() # AT: of a file's weights
{
    cp fixtures/lm.core.static.pt2 "$work/damaged.pt2"
    printf X | dd of="$work/damaged.pt2" bs=1 seek="$1" conv=notrunc 2> /dev/null
}
for at in 130 1400000; do
    damage "$at"
    refused 2 ARC-012 "$exg run $work/damaged.pt2 --input fixtures/lm.inputs.safetensors --place tensor; code=\$?; sleep 3; exit \$code"
    timeout 60 "$mpiexec" -n 2 "$exg" run "$work/damaged.pt2" --input fixtures/lm.inputs.safetensors --place tensor --no-check > /dev/null ||
        fault "--no-check compares"
done
damage 130
refused 2 ARC-012 'f='"$work"'/damaged; [ $rank = 0 ] && f=fixtures/lm.core.static; '"$exg"' run $f.pt2 --input fixtures/lm.inputs.safetensors --place replicate; code=$?; sleep 3; exit $code'

# A rank that never starts, and one that stops on its way, within --timeout.
refused 3 COM-001 '[ $rank = 1 ] && exec sleep 50; exec '"$exg"' run fixtures/mlp.pt2 --timeout 2'
named() # WHO: where Open MPI or Slurm says who is of a job
{
    [ -z "${open_mpi}" ] || grep -q "started within [0-9.]* s: $1" "$work/err" || fault "not told: $1: $(cat "$work/err")"
}
open_mpi=$("$mpiexec" -n 1 sh -c 'echo "$OMPI_COMM_WORLD_LOCAL_SIZE"')
named 'rank 1 did not start (node '
refused 4 COM-001 '[ $rank = 3 ] && exec sleep 50; [ $rank = 1 ] && { (sleep 1; kill -STOP $$; sleep 20; kill -KILL $$) & }; [ $rank = 2 ] && sleep 1; exec '"$exg"' run fixtures/mlp.pt2 --timeout 4'
named 'rank 1 is stopped, rank 3 did not start (node '
# The same where two of the three are of this node, as is said to them.
refused 3 COM-001 '[ $rank = 2 ] && exec sleep 50; export OMPI_COMM_WORLD_LOCAL_SIZE=2; exec '"$exg"' run fixtures/mlp.pt2 --timeout 2'
named 'the 2 of node '
refused 3 COM-001 '[ $rank = 1 ] && exec sleep 50; export OMPI_COMM_WORLD_LOCAL_SIZE=2; [ $rank = 2 ] && exec sleep 50; exec '"$exg"' run fixtures/mlp.pt2 --timeout 2'
named 'local rank 1 did not start (node '
refused 3 COM-001 '[ $rank = 1 ] && { (sleep 1; kill -STOP $$; sleep 20; kill -KILL $$) & }; exec '"$exg"' run fixtures/mlp.pt2 --place data --repeat 100000000 --timeout 2'
grep -q "rank 1 did not arrive" "$work/err" || fault "the rank that stopped is not named"
grep -q "where: rank [02], \\(node '\|where all\)" "$work/err" || fault "the place that waits is not named"

# Weights that are cut short on one rank's disk: each rank that speaks names that rank and the file.
mkdir "$work/whole" "$work/cut"
"$exg" convert fixtures/lm.core.static.pt2 "$work/whole/m.exg" --weights external > /dev/null
cp "$work/whole"/* "$work/cut"
for file in "$work/cut"/*.weights; do
    head -c 700000 "$file" > "$work/short" && mv "$work/short" "$file"
done
timeout 60 "$mpiexec" -n 3 sh -c 'rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; d=whole; [ "$rank" = 1 ] && d=cut; exec "$1" run "$2/$d/m.exg" --input fixtures/lm.inputs.safetensors --place tensor --timeout 10' \
    sh "$exg" "$work" > "$work/out" 2> "$work/err"
[ $? -eq 4 ] || fault "weights that are cut short on one rank: $(cat "$work/err")"
grep -q "IO-RANGE: .*\.weights has 700000 bytes" "$work/err" && grep -q "where: rank 1\.weights" "$work/err" || fault "the rank whose weights are cut short, or their file, is not named"

# A rank that cannot write what it gives, and one that comes late, but in time.
timeout 60 "$mpiexec" -n 2 sh -c 'rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; f=$2; [ "$rank" = 1 ] && f=/proc; exec "$1" run fixtures/parallel/moves2.pt2 --input "fixtures/parallel/moves2.{rank}.inputs.safetensors" --output "$f/o.{rank}.npz"' \
    sh "$exg" "$work" > "$work/out" 2> "$work/err"
[ $? -eq 3 ] && grep -q "rank 1: exg: IO-WRITE: .*/proc/o\.1\.npz" "$work/err" || fault "a rank that cannot write: $(cat "$work/err")"
timeout 60 "$mpiexec" -n 2 sh -c 'rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; [ "$rank" = 1 ] && sleep 1; exec "$1" run fixtures/mlp.pt2 --input fixtures/mlp.inputs.safetensors --expect fixtures/mlp.expected.safetensors --place tensor --timeout 20' \
    sh "$exg" > "$work/out" 2> "$work/err" && grep -q "as expected" "$work/out" || fault "a rank that comes late: $(cat "$work/err")"

# A bench is one of all processes: as many runs on each, programs that are already parallel too.
timeout 60 "$mpiexec" -n 3 "$exg" bench fixtures/mlp.pt2 --place tensor --with place=data --duration 0.05 --warm-up 0.02 > "$work/out" 2>&1 ||
    fault "bench: $(cat "$work/out")"
[ "$(grep -c -e "^a run by 3 ranks at once" -e "^[AB]  " "$work/out")" -eq 3 ] || fault "bench does not tell of 3 ranks and two sides, once"
timeout 60 "$mpiexec" -n 2 "$exg" bench fixtures/parallel/moves2.pt2 --fill random --duration 0.05 --warm-up 0.02 > "$work/out" 2>&1 ||
    fault "bench of a parallel program: $(cat "$work/out")"
grep -q "^torch.ops.exg.all_to_all" "$work/out" || fault "bench does not tell of the collectives"
refused 2 CLI-013 "$exg bench fixtures/mlp.pt2 --sessions 2"
refused 2 CLI-013 "$exg bench fixtures/mlp.pt2 --with isa=generic"

# On GPUs: one a process, which NCCL joins, and the same one for all, through the host.
LD_LIBRARY_PATH=$standin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
XDG_CACHE_HOME=$standin/cache
export LD_LIBRARY_PATH XDG_CACHE_HOME EXG_STANDIN_DEVICES
EXG_STANDIN_DEVICES=4
same 2 2 tensor fixtures/mlp.pt2 --device cuda
same 4 2x2 fsdp,tensor fixtures/lm.core.static.pt2 --input fixtures/lm.inputs.safetensors --device cuda
timeout 60 "$mpiexec" -n 2 "$exg" run fixtures/mlp.pt2 --input fixtures/mlp.inputs.safetensors --device cuda --place pipeline --microbatches 3 \
    --expect fixtures/mlp.expected.safetensors > "$work/out" 2>&1 || fault "stages on devices: $(cat "$work/out")"
timeout 60 "$mpiexec" -n 2 "$exg" run fixtures/mlp.pt2 --device cuda --place tensor --stats > "$work/out"
grep -q "^collectives go through NCCL" "$work/out" || fault "NCCL does not join processes"
refused 2 COM-012 'EXG_STANDIN_NCCL=hang:1:0 exec '"$exg"' run fixtures/mlp.pt2 --device cuda --place tensor --timeout 2'
EXG_STANDIN_DEVICES=1
same 2 2 tensor fixtures/mlp.pt2 --device cuda
echo "$faults faults"
[ "$faults" -eq 0 ]

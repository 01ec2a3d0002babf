#!/bin/sh
# Faults of NCCL among processes, in a replayed graph and while one is recorded: each ends in time,
# with the same exit status on all ranks, and names rank and node.
# Usage: faults.sh EXG MPIEXEC [EVERY]: of the 22 collectives of two runs each EVERYth, 4 unless given.
set -eu
exg=$1 mpiexec=$2 every=${3:-4}
export EXG_STANDIN_DEVICES=2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fails() { # plan, code, where
  rc=0
  EXG_STANDIN_NCCL=$1 timeout 60 "$mpiexec" --oversubscribe -n 2 "$exg" run fixtures/lm.core.static.pt2 --device cuda \
    --place tensor --repeat 4 --timeout 2 >"$folder/out" 2>&1 || rc=$?
  if [ "$rc" -ne 9 ] || ! grep -q "$2" "$folder/out" || ! grep -q "$3" "$folder/out"; then
    echo "$1: exit status $rc, not 9 with $2, $3"
    cat "$folder/out"
    exit 1
  fi
}

# of 11 collectives a run, those of the second are recorded
fails hang:1:19 COM-012 "where: rank 1, node 'reduce_scatter"
fails error:0:20 COM-011 "where: rank 0, node 'all_to_all"
fails refuse:1:20 COM-011 "where: rank 1, node 'all_to_all"
fails init:1 COM-011 "where: rank 1, where devices are joined"
number=0
while [ "$number" -lt 22 ]; do
  case $((number / every % 3)) in
    0) fails "hang:$((number % 2)):$number" COM-012 "where: rank [01], node '" ;;
    1) fails "error:$((number % 2)):$number" COM-011 "where: rank [01], node '" ;;
    2) fails "refuse:$((number % 2)):$number" COM-011 "where: rank $((number % 2)), node '" ;;
  esac
  number=$((number + every))
done
# Processes that share a device go through the host, and say why.
EXG_STANDIN_DEVICES=1 "$mpiexec" --oversubscribe -n 2 "$exg" run fixtures/lm.core.static.pt2 --device cuda --place tensor --stats \
  >"$folder/out" 2>&1
if ! grep -q "^collectives go through the host (ranks are processes that share a device" "$folder/out"; then
  echo "processes that share a device:"
  cat "$folder/out"
  exit 1
fi
# NCCL's abort does not return; nor does it end anything.
for how in blocks deaf; do
  export EXG_STANDIN_NCCL_ABORT=$how
  fails hang:1:3 COM-012 "where: rank 1, node '"
  fails hang:0:19 COM-012 "where: rank 0, node 'reduce_scatter"
  fails refuse:0:20 COM-011 "where: rank 0, node 'all_to_all"
done

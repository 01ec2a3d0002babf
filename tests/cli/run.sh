#!/bin/sh
# run.sh - the command line, case by case.
#
#   run.sh EXG [--update] [NAME...]
#
# A case is a few files in tests/cli/cases/. NAME.cmd is a line of shell in which `exg`
# is the program under test, $T an empty folder, and the place is the source root.
# NAME.out and NAME.err hold what it prints, NAME.code the exit code, NAME.files what it
# leaves in $T; a file that is not there stands for nothing printed, 0, or nothing left.
# Where the line says --json and prints something, that must be valid JSON.
# Values that a product or a convolution made depend on the processor in their last digit: a case
# that computes says `--expect FILE | grep -v float32`, so that the comparison alone is kept.
# EXG_ONE_IN=3 runs every third case.
# --update writes these files as the program behaves now: look at the difference.
set -u
LC_ALL=C
export LC_ALL
exe=$1
if [ ! -x "$exe" ]; then
    echo "$exe is no program"
    exit 1
fi
shift
update=no
if [ "${1:-}" = --update ]; then
    update=yes
    shift
fi
root=$(cd "$(dirname "$0")/../.." && pwd)
cases=$root/tests/cli/cases
work=$(mktemp -d "${TMPDIR:-/tmp}/exg-cli.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
faults=0
count=0
json=no
if command -v python3 > /dev/null && python3 -c 'import json' 2> /dev/null; then
    json=yes
fi
cd "$root" || exit 1

exg()
{
    "$exe" "$@"
}

# compare NAME KIND: $work/KIND against cases/NAME.KIND
compare()
{
    want=$cases/$1.$2
    if [ "$update" = yes ]; then
        if [ -s "$work/$2" ]; then
            cp "$work/$2" "$want"
        else
            rm -f "$want"
        fi
        return 0
    fi
    [ -f "$want" ] || want=/dev/null
    if ! diff -u "$want" "$work/$2" > "$work/diff"; then
        echo "FAILED $1: $2 differs"
        cat "$work/diff"
        return 1
    fi
}

run_case()
{
    T=$work/t
    rm -rf "$T"
    mkdir "$T"
    # A subshell, so that a case can neither leave nor change the script.
    (eval "$(cat "$cases/$1.cmd")") > "$work/out.raw" 2> "$work/err.raw"
    code=$?
    sed "s|$T|TMP|g" "$work/out.raw" > "$work/out"
    sed "s|$T|TMP|g" "$work/err.raw" > "$work/err"
    if [ "$code" -ne 0 ]; then echo "$code"; fi > "$work/code"
    ls -A "$T" > "$work/files"
    bad=0
    for kind in out err code files; do
        compare "$1" "$kind" || bad=1
    done
    if [ "$json" = yes ] && grep -q -e ' --json' "$cases/$1.cmd" && [ -s "$work/out" ]; then
        if ! python3 -c 'import json, sys; json.load(sys.stdin)' < "$work/out" 2> /dev/null; then
            echo "FAILED $1: no valid JSON"
            bad=1
        fi
    fi
    return $bad
}

if [ $# -eq 0 ]; then
    set -- $(cd "$cases" && ls | sed -n 's/\.cmd$//p')
fi
number=0
for name; do
    number=$((number + 1))
    [ $((number % ${EXG_ONE_IN:-1})) -eq 0 ] || continue
    count=$((count + 1))
    run_case "$name" || faults=$((faults + 1))
done
# A result without its case is a leftover.
for file in "$cases"/*; do
    if [ ! -f "${file%.*}.cmd" ]; then
        echo "FAILED: ${file##*/} belongs to no case"
        faults=$((faults + 1))
    fi
done
echo "$count cases, $faults faults"
[ "$faults" -eq 0 ]

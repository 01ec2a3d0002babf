#!/bin/sh
# seeds.sh - the tables of seed rows name tests that exist, and no row is left out.
#
#   seeds.sh ROOT
set -u
cd "$1" || exit 1
faults=0

say()
{
    echo "$1"
    faults=$((faults + 1))
}

# check TABLE SEED:ROWS...
check()
{
    table=$1
    shift
    for entry in $(grep '^| S0' $table | grep -oE '`[^`]+`' | tr -d '`' | sort -u); do
        file=${entry%%:*}
        name=${entry#"$file"}
        name=${name#:}
        if [ ! -f "$file" ]; then
            say "$table: there is no $file"
        elif [ -n "$name" ] && ! grep -qw -- "$name" "$file"; then
            say "$table: $file has no $name"
        fi
    done
    grep '^| S0' $table | grep -vE '^\| S0[0-9-]+ \| (yes|partly: |no: )' | while read -r line; do
        echo "$table: neither yes, partly nor no: $line"
    done | grep . && faults=1
    grep '^| S0' $table | grep -E '\| (yes|partly)[^|]*\| *\|$' | grep . && faults=1 # met, and nothing shows it
    for seed in "$@"; do
        found=$(grep -c "^| ${seed%:*}-" "$table")
        [ "$found" -eq "${seed#*:}" ] || say "$table: ${seed%:*} has $found rows of ${seed#*:}"
    done
    [ $faults -eq 0 ] && echo "$table: $(grep -c '^| S0' "$table") rows"
}

check tests/seeds-000-001.md S000:28 S001:56
check tests/seeds-002-004.md S002:113 S004:84
check tests/seeds-003.md S003:140
[ $faults -eq 0 ]

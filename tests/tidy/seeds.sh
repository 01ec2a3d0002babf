#!/bin/sh
# seeds.sh - every row of the seeds is there, and the tests that it names say that they show it.
#
#   seeds.sh ROOT
#
# A test shows a row when the row's id stands in it: of a C function, within it or in the comment
# right above it; of any other file, anywhere in it.
set -u
cd "$1" || exit 1
faults=0

say()
{
    echo "$1"
    faults=$((faults + 1))
}

# entries TABLE: one line "ROW FILE NAME" for each test that the table names.
entries()
{
    awk -F' [|] ' '/^\| S0/ {
        row = substr($1, 3)
        count = split($NF, part, "`")
        for (i = 2; i <= count; i += 2) {
            colon = index(part[i], ":")
            print row, colon ? substr(part[i], 1, colon - 1) : part[i], \
                colon ? substr(part[i], colon + 1) : "-"
        }
    }' "$1"
}

# claims FILE: one line "NAME ROW" for each row that a function of the C file says it shows.
claims()
{
    awk '
    function ids(line) {
        while (match(line, /S00[0-4]-[0-9]+/)) {
            seen[substr(line, RSTART, RLENGTH)] = 1
            line = substr(line, RSTART + RLENGTH)
        }
    }
    function forget(  id) { for (id in seen) delete seen[id] }
    /^static void [a-z_0-9]+\(/ { name = $3; sub(/\(.*/, "", name) }
    { ids($0) }
    /^}/ { if (name != "") for (id in seen) print name, id; name = ""; forget() }
    /^$/ && name == "" { forget() }' "$1"
}

# check TABLE ROWS: the table has that many rows, and each is shown.
check()
{
    table=$1
    entries "$table" >"$work/entries"
    cut -d' ' -f2 "$work/entries" | sort -u | while read -r file; do
        case $file in
        *.c) [ -f "$file" ] && claims "$file" | sed "s|^|$file |" ;;
        esac
    done >"$work/claims"
    while read -r row file name; do
        if [ ! -e "$file" ]; then
            say "$table: there is no $file"
        elif [ "$name" != - ] && ! grep -qw -- "$name" "$file"; then
            say "$table: $file has no $name"
        elif [ "${file%.c}" != "$file" ]; then
            grep -qx -- "$file $name $row" "$work/claims" ||
                say "$table: $name of $file does not say that it shows $row"
        elif [ "${file#tests/}" = "$file" ] || ! grep -qw -- "$row" "$file"; then
            say "$table: $file does not say that it shows $row"
        fi
    done <"$work/entries"
    grep '^| S0' "$table" | grep -vE ' \| (yes|yes[:,;] [^|]*|partly: [^|]*|no: [^|]*) \| [^|]*\|$' | grep . &&
        say "$table: a row is met (yes), or it says why not (partly: WHY, no: WHY)"
    grep '^| S0' "$table" | grep -E ' \| (yes|partly[^|]*) \| *\|$' | grep . &&
        say "$table: a row is said to be met, and nothing shows it"
    found=$(grep -c '^| S0' "$table")
    [ "$found" -eq "$2" ] || say "$table: $found rows of $2"
    echo "$table: $found rows"
}

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
check tests/seeds-000.md 28
check tests/seeds-001.md 56
check tests/seeds-002.md 119
check tests/seeds-003.md 148
check tests/seeds-004.md 86
[ $faults -eq 0 ]

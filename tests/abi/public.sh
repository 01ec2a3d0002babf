#!/bin/sh
# public.sh - what the libraries promise to programs that link them.
#
#   public.sh NM LIBRARY.so INCLUDE LIST    [--update]
#
# LIST names every function that the headers below INCLUDE declare, one a line: a change of
# it is a change of the interface. The library exports them and nothing else, but for what
# the library above it needs, under a version of its own (EXG_PRIVATE). A test names each, and
# tests/exec/nulls.c calls each that gives a status and has room for a fault without anything.
set -u
LC_ALL=C
export LC_ALL
nm=$1 library=$2 include=$3 list=$4
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/exg-public.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT

# A declaration begins at the first column; typedefs, inline ones and macros are others.
cat "$root/$include"/*.h | sed 's/^EXG_NODISCARD //' | grep -E '^[a-z]' | grep -vE '^(typedef|static|extern "C"|struct|enum|union)' |
    grep -oE 'exg_[a-z0-9_]+\(' | tr -d '(' | sort -u > "$work/declared"
if [ "${5:-}" = --update ]; then
    cp "$work/declared" "$root/$list"
fi
"$nm" -D --defined-only "$library" | awk '$2 != "A" && !/@EXG_PRIVATE$|@@EXG_PRIVATE$/ { print $NF }' |
    sed 's/@.*//' | sort -u > "$work/exported"
{
    comm -3 "$root/$list" "$work/declared" | sed 's/^\t*/declared or listed, not both: /'
    comm -23 "$root/$list" "$work/exported" | sed 's/^/not exported: /'
    comm -13 "$root/$list" "$work/exported" | sed 's/^/exported, and not listed: /'
    find "$root/tests" -name '*.[ch]' -exec grep -ohE 'exg_[a-z0-9_]+' {} + | sort -u > "$work/tested"
    comm -23 "$root/$list" "$work/tested" | sed 's/^/in no test: /'
    cat "$root/$include"/*.h | sed 's/^EXG_NODISCARD //' | grep -oE '^exg_status exg_[a-z0-9_]+' | cut -d' ' -f2 | sort -u |
        grep -vE '^exg_error_|^exg_builder_status$|^exg_emit_all$' > "$work/tells"
    grep -oE 'exg_[a-z0-9_]+\(' "$root/tests/exec/nulls.c" | tr -d '(' | sort -u |
        comm -23 "$work/tells" - | sed 's/^/not in tests\/exec\/nulls.c: /'
} > "$work/found"
cat "$work/found"
[ "$(grep -c . "$work/declared")" -ge 20 ] || { echo "too few declarations found"; exit 1; }
[ ! -s "$work/found" ]

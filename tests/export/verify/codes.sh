#!/bin/sh
# codes.sh - every fault code in the source has a row in rule.def or fault.def, every row of
# fault.def is in the source, no code has two rows, and each says what to do.
#
#   codes.sh ROOT
set -u
LC_ALL=C
export LC_ALL
cd "$1" || exit 1
work=$(mktemp -d "${TMPDIR:-/tmp}/exg-codes.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
code='[A-Z][A-Z0-9]{1,4}-([0-9]{3}|[A-Z][A-Z0-9]+)'

grep -rhE "\"$code\"" libexport libexec cli --include='*.c' --include='*.h' --include='*.cpp' \
    --include='*.hpp' | sed 's,/\*.*,,' | grep -oE "\"$code\"" | grep -vx '"SHA-256"' | sort -u > "$work/used"
sed -n 's/^EXG_RULE(\("[^"]*"\).*/\1/p' libexport/verify/rule.def | sort > "$work/rules"
sed -n 's/^EXG_FAULT(\("[^"]*"\).*/\1/p' libexport/base/fault.def | sort > "$work/faults"
sort "$work/rules" "$work/faults" > "$work/rows"
{
    uniq -d "$work/rows" | sed 's/^/two rows: /'
    sort -u "$work/rows" | comm -23 "$work/used" - | sed 's/^/no row in rule.def or fault.def: /'
    sed -n 's/^EXG_[A-Z]*(\("[^"]*"\).*, "")$/no fix: \1/p' libexport/verify/rule.def libexport/base/fault.def
    comm -13 "$work/used" "$work/faults" | sed 's/^/a row of fault.def that nothing uses: /'
} > "$work/found"
cat "$work/found"
[ "$(grep -c . "$work/used")" -ge 150 ] || { echo "too few codes found"; exit 1; }
[ ! -s "$work/found" ]

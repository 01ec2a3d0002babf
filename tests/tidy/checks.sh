#!/bin/sh
# checks.sh - rules of the house that a compiler does not know.
#
#   checks.sh [ROOT]
#
# length     a file of more than 800 lines, or a function of more than 80, is a question: split
#            it by its nouns, or give the reason in exceptions.txt
# columns    a line has at most 100 columns; tables (.def) may have more
# tabs       none
# calls      no function that overruns, splits commands or ends the process; libraries
#            do not print
# notes      nothing is left to be done later
# layers     includes go one way (layers.txt)
# documents  a page of docs/ that is named is there, with the section
#
# exceptions.txt: CHECK PATH COUNT REASON - COUNT faults of CHECK in PATH, no more and no fewer.
set -u
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")" && pwd)
root=${1:-$here/../..}
cd "$root" || exit 1
work=$(mktemp -d "${TMPDIR:-/tmp}/exg-tidy.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT

if [ -d .git ] && git ls-files > "$work/all" 2> /dev/null && [ -s "$work/all" ]; then
    :
else
    find . -type f | sed 's|^\./||' | grep -v '^build' | sort > "$work/all"
fi
while read -r file; do
    [ -f "$file" ] && echo "$file"
done < "$work/all" > "$work/there"
grep -E '^(libexport|libexec|cli|tests|fixtures|schema|cmake)/.*\.(c|h|cpp|cu|def|awk|sh|py|cmake)$' \
    "$work/there" > "$work/text"
grep -E '\.(c|h|cpp|cu)$' "$work/text" > "$work/code"
grep -E '^(libexport|libexec|cli)/.*\.(c|h|cpp|cu|def)$' "$work/text" > "$work/product"

# The names of forbidden things are put together here, so that this file passes.
note="FIX""ME|TO""DO|XX""X"

# over LIST PROGRAM: an awk program over the files of a list; prints CHECK PATH:LINE: TEXT
over()
{
    [ -s "$1" ] || return 0
    # Paths of this tree hold no blanks.
    awk "$2" $(cat "$1")
}

{
    over "$work/text" '
        FNR == 1 { if (NR > 1 && last > 800) print "length " name ":" last ": a long file"; name = FILENAME }
        { last = FNR }
        END { if (last > 800) print "length " name ":" last ": a long file" }'
    over "$work/code" '
        FNR == 1 { begin = 0 }
        /^\{/ { begin = FNR; title = before }
        /^\}/ { if (begin && FNR - begin - 1 > 80)
                    print "length " FILENAME ":" begin ": " FNR - begin - 1 " lines: " title
                begin = 0 }
        /^[^ \t{}#\/*]/ { before = $0 }'
    over "$work/code" 'length($0) > 100 { print "columns " FILENAME ":" FNR ": " length($0) " columns" }'
    over "$work/text" 'index($0, "\t") { print "tabs " FILENAME ":" FNR ": a tab" }'
    over "$work/product" '
        /^[ ]*(\/\*|\*|\/\/)/ { next }
        /(^|[^A-Za-z0-9_>.])(strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|strtok|alloca|system|popen)\(/ {
            print "calls " FILENAME ":" FNR ": " $0 }'
    grep -E '^lib(export|exec)/' "$work/product" > "$work/libraries"
    over "$work/libraries" '
        /^[ ]*(\/\*|\*|\/\/)/ { next }
        /(^|[^A-Za-z0-9_>.])(exit|_exit|abort|printf|fprintf|puts|putchar|perror)\(/ {
            print "calls " FILENAME ":" FNR ": " $0 }'
    over "$work/text" "/(^|[^A-Za-z0-9_])($note)([^A-Za-z0-9_]|\$)/ { print \"notes \" FILENAME \":\" FNR \": \" \$0 }"
    if [ -s "$work/product" ]; then
        whole=0
        [ $# -eq 0 ] && whole=1
        awk -v whole=$whole -f "$here/layers.awk" "$here/layers.txt" $(cat "$work/product") |
            sed 's/^/layers /'
    fi
    awk '
        /^#+ [0-9]+[a-z0-9.]*/ { name = FILENAME; sub(/.*\//, "docs/", name); sub(/\.$/, "", $2)
                                 has[name " " $2] = 1 }
        FILENAME ~ /\.md$/ && FILENAME ~ /^docs\// { page[FILENAME] = 1; next }
        { line = $0
          while (match(line, /docs\/[a-z0-9_-]+\.md(,? sections?)?( [0-9]+(\.[0-9]+)*)?/)) {
              ref = substr(line, RSTART, RLENGTH); line = substr(line, RSTART + RLENGTH)
              gsub(/,? sections?/, "", ref); count = split(ref, part, " ")
              if (!(part[1] in page)) print "documents " FILENAME ":" FNR ": no " part[1]
              else if (count > 1 && !(part[1] " " part[2] in has))
                  print "documents " FILENAME ":" FNR ": " part[1] " has no section " part[2] } }
    ' $(grep '^docs/.*\.md$' "$work/there") $(grep -v "^tests/tidy/" "$work/text")
} > "$work/found"

# Exceptions take away as many faults of their check and path as they say.
awk -v whole=$# '
    FNR == 1 { file++ }
    file == 1 && /^[a-z]/ {
        most[$1 " " $2] = $3
        if (NF < 4) { print "exceptions.txt:" FNR ": an exception without a reason"; faults++ }
        next
    }
    file == 1 { next }
    { path = $2; sub(/:.*/, "", path); key = $1 " " path; seen[key]++; line[NR] = $0; keys[NR] = key }
    END {
        for (i = 1; i <= NR; i++) {
            if (i in keys && seen[keys[i]] > most[keys[i]]) { print line[i]; faults++ }
        }
        for (key in most) {
            if (whole == 0 && seen[key] < most[key]) {
                print "exceptions.txt: " key ": " most[key] " are allowed, there are " seen[key] + 0
                faults++
            }
        }
        exit faults > 0
    }' "$here/exceptions.txt" "$work/found"
code=$?
[ $code -eq 0 ] && echo "tidy: $(grep -c . "$work/text") files"
exit $code

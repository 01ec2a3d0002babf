#!/bin/sh
# test.sh - the checks find what is planted, and nothing in a clean tree.
set -u
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d "${TMPDIR:-/tmp}/exg-planted.XXXXXX") || exit 1
trap 'rm -rf "$tree"' EXIT
faults=0

# plant CHECK FILE: standard input becomes FILE of a tree of its own; CHECK must find it.
plant()
{
    rm -rf "$tree/libexport" "$tree/libexec" "$tree/cli"
    mkdir -p "$tree/$(dirname "$2")"
    cat > "$tree/$2"
    "$here/checks.sh" "$tree" > "$tree/out" 2>&1
    code=$?
    if [ "$1" = clean ]; then
        [ $code -eq 0 ] && return
        echo "FAILED: a fault in a clean file"
    else
        [ $code -ne 0 ] && grep -q "^$1 $2" "$tree/out" && return
        echo "FAILED: $1 in $2 is not found"
    fi
    cat "$tree/out"
    faults=$((faults + 1))
}

echo 'int a;' | plant clean libexport/base/a.c
awk 'BEGIN { for (i = 0; i < 801; i++) print "int a;" }' | plant length libexport/base/a.c
awk 'BEGIN { print "void f(void)\n{"; for (i = 0; i < 81; i++) print "    g();"; print "}" }' |
    plant length libexport/base/a.c
awk 'BEGIN { print "void f(void)\n{"; for (i = 0; i < 80; i++) print "    g();"; print "}" }' |
    plant clean libexport/base/a.c
awk 'BEGIN { printf "int "; for (i = 0; i < 100; i++) printf "a"; print ";" }' |
    plant columns cli/a.c
printf '\tint a;\n' | plant tabs libexec/comm/a.c
for call in strcpy strcat sprintf gets atoi system; do
    echo "    $call(a, b);" | plant calls cli/a.c
done
for call in exit abort printf fprintf; do
    echo "    $call(a);" | plant calls libexec/plan/a.c
done
echo '    c->abort(c); snprintf(a); exg_abort(c);' | plant clean libexec/plan/a.c
echo '    printf(a);' | plant clean cli/a.c
echo '/* TO''DO: later */' | plant notes libexport/verify/a.c
echo '#include <exg/plan.h>' | plant layers libexport/verify/a.c
echo '#include "libexport/verify/verifier.h"' | plant layers libexport/program/a.c
echo '#include "cli/cli.h"' | plant layers libexec/plan/a.c
echo '#include "libexec/session/context.h"' | plant layers libexec/plan/a.c
echo '#include <exg/unheard.h>' | plant layers libexport/verify/a.c
echo '#include "libexport/base/map.h"' | plant layers cli/a.c
echo '#include "libexport/program/copy.h"' | plant layers libexec/plan/a.c
echo '#include "libexport/program/uses.h"' | plant clean libexec/plan/a.c
echo '#include "libexport/base/map.h"' | plant clean libexport/verify/a.c
echo '#include <exg/exec.h>' | plant clean cli/a.c
mkdir -p "$tree/docs" && echo '## 2. Two' > "$tree/docs/a.md"
echo '/* docs/a.md section 2, docs/a.md */' | plant clean libexport/verify/a.c
echo '/* docs/a.md section 3 */' | plant documents libexport/verify/a.c
echo '/* docs/b.md */' | plant documents libexport/verify/a.c
rm -r "$tree/docs"
echo "$faults faults"
[ $faults -eq 0 ]

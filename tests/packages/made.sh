#!/bin/sh
# made.sh - the Debian packages of this build: which there are, what is in them, and that they are
# the same bytes when they are made again.
#
#   made.sh CPACK BUILD
set -eu
cpack=$1 build=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/exg-packages.XXXXXX")
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=1700000000
export SOURCE_DATE_EPOCH
umask 022

fail()
{
    echo "FAILED $*"
    exit 1
}

for time in one two; do
    (cd "$build" && "$cpack" -G DEB -B "$work/$time" > "$work/log" 2>&1) || fail "$(cat "$work/log")"
    rm -rf "$work/$time/_CPack_Packages"
done
for file in "$work"/one/*.deb; do
    cmp "$file" "$work/two/$(basename "$file")" || fail "made again, $(basename "$file") is another"
    dpkg-deb -x "$file" "$work/all"
    dpkg-deb -f "$file" Package >> "$work/names"
    dpkg-deb -f "$file" Depends | grep -q ^lib || case $file in
    *libexg-dev*) dpkg-deb -f "$file" Depends | grep -q "libexg[0-9]* (= " || fail "libexg-dev needs no library" ;;
    *) fail "$(basename "$file") depends on nothing" ;;
    esac
done
for name in exg libexg-dev exg-plugin-torchvision exg-plugin-cuda; do
    grep -qx "$name" "$work/names" || fail "no package $name"
done
for file in bin/exg include/exg/session.h share/man/man1/exg-run.1.gz share/zsh/vendor-completions/_exg \
    share/fish/vendor_completions.d/exg.fish share/bash-completion/completions/exg share/exg/presets; do
    [ -e "$(find "$work/all" -path "*/$file")" ] || fail "no package has $file"
done
while read -r name; do
    for file in copyright changelog.gz; do
        [ -s "$work/all/usr/share/doc/$name/$file" ] || fail "$name has no $file"
    done
    zcat "$work/all/usr/share/doc/$name/changelog.gz" | grep -q "Tue, 14 Nov 2023" || fail "the changelog of $name is of another day"
done < "$work/names"
for page in libexg-dev/docs/c.md exg/docs/debug.md exg/docs/cookbook/README.md exg/schema/rules.md; do
    [ -s "$(find "$work/all" -path "*/doc/$page")" ] || fail "no package has doc/$page"
done
if command -v lintian > /dev/null; then # more than Debian's own checks of a build is not asked for
    lintian --fail-on error,warning --no-tag-display-limit "$work"/one/*.deb > "$work/lintian" 2>&1 || fail "$(cat "$work/lintian")"
fi
if grep -rlF -e "$root/" -e "$build/" "$work/all"; then
    fail "a path of the machine that built is in these"
fi
# A RUNPATH keeps its room when it is installed: a folder in it would make other bytes of another folder.
if readelf -d "$build/libexec/libexg_exec.so" "$build/cli/exg" | grep -i runpath | grep -qF -e '[/' -e ':/'; then
    fail "a folder of the machine that built is in a RUNPATH, whose length is kept"
fi

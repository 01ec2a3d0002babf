#!/bin/sh
# exports.sh - the linker's version script of a shared library.
#
#   exports.sh NM OUT VERSION LIST [OBJECT...]
#
# EXG_VERSION holds the public functions of LIST; EXG_PRIVATE the names of ours that the
# objects of the library above ask for: no part of the interface, and gone from it without
# notice. All else stays inside.
set -eu
LC_ALL=C
export LC_ALL
nm=$1 out=$2 version=$3 list=$4
shift 4
{
    echo "/* Made by exports.sh. */"
    echo "EXG_$version {"
    sed '1s/^/  global: /; s/$/;/' "$list"
    echo "  local: *;"
    echo "};"
    if [ $# -gt 0 ]; then
        "$nm" -u -A "$@" | awk '{ print $NF }' | grep '^exg_' | sort -u > "$out.wanted"
        "$nm" --defined-only "$@" | awk 'NF == 3 { print $3 }' | sort -u > "$out.own"
        comm -23 "$out.wanted" "$out.own" | comm -23 - "$list" > "$out.private"
        if [ -s "$out.private" ]; then
            echo "EXG_PRIVATE {"
            sed '1s/^/  global: /; s/$/;/' "$out.private"
            echo "};"
        fi
        rm -f "$out.wanted" "$out.own" "$out.private"
    fi
} > "$out"

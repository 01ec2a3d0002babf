#!/bin/sh
# format.sh - is every C file laid out as .clang-format says?
#
#   format.sh [--fix]    exit code 77: clang-format-14 is not installed
set -u
cd "$(dirname "$0")/../.." || exit 1
tool=$(command -v clang-format-14) || { echo "skipped: clang-format-14 is not installed"; exit 77; }
if [ -d .git ]; then git ls-files '*.c' '*.h' '*.hpp' '*.cpp'
else find cli examples fixtures libexec libexport tests -name '*.[ch]' -o -name '*.[ch]pp'
fi | while read -r file; do [ -f "$file" ] && echo "$file"; done > "${TMPDIR:-/tmp}/exg-format.$$"
trap 'rm -f "${TMPDIR:-/tmp}/exg-format.$$"' EXIT
if [ "${1:-}" = --fix ]; then
    xargs -P "$(nproc)" -n 50 "$tool" -i < "${TMPDIR:-/tmp}/exg-format.$$"
elif ! xargs -P "$(nproc)" -n 50 "$tool" --dry-run -Werror < "${TMPDIR:-/tmp}/exg-format.$$"; then
    echo "sh tests/tidy/format.sh --fix lays them out"
    exit 1
fi

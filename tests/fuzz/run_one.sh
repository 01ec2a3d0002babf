#!/bin/sh
# run_one.sh SECONDS TARGET NAME - one fuzzer for a while; its corpus grows outside
# the source tree, a fault stays in build/.
seconds="$1"
target="$2"
name="$3"
grown="build/fuzz-corpus/$name"
mkdir -p "$grown"
seeds="tests/fuzz/corpus/$name"
[ -d "$seeds" ] || seeds=""
# shellcheck disable=SC2086
if "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 \
    -artifact_prefix="build/crash-$name-" "$grown" $seeds >"build/fuzz-$name.log" 2>&1; then
    runs="$(grep -o 'Done [0-9]* runs' "build/fuzz-$name.log" | tail -n 1)"
    echo "fuzz $name: $runs, clean"
else
    echo "fuzz $name: FAULT" >&2
    tail -n 40 "build/fuzz-$name.log" >&2
    exit 1
fi

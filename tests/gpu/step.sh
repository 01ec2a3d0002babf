#!/bin/sh
# step.sh SECONDS TOOL TEST [NAME=VALUE...|COMMAND...] - a step of run.sh, a row in its result: a
# test of the pack in an environment, under TOOL of compute-sanitizer or "-"; or a command. Of the environment TEST_FILTER is for us: which tests of the binary.
set -u
[ $# -ge 3 ] || exit 0 # a part of no tests
limit=$1 tool=$2 test=$3
shift 3
name="$test$([ "$tool" = - ] || echo " under $tool")"
case ${1:-} in
*=* | "")
    for setting in "$@"; do
        export "${setting?}"
        case $setting in
        *_DEVICE=*) ;;
        *) name="$name, ${setting#EXG_}" ;;
        esac
    done
    if [ "$tool" = - ]; then
        set -- "$EXG_GPU_BUILD/tests/test_exec_$test"
    else
        set -- compute-sanitizer --tool "$tool" --error-exitcode 9 \
            "$EXG_GPU_BUILD/tests/test_exec_$test"
    fi
    [ -z "${TEST_FILTER:-}" ] || set -- "$@" "$TEST_FILTER"
    ;;
esac
log=$EXG_GPU_BUILD/logs/$(echo "$name" | tr -c 'a-zA-Z0-9\n' _).txt
from=$(date +%s)
timeout "$limit" "$@" > "$log" 2>&1
status=$?
case $status in
0) result=passed ;;
124) result="over $limit s" ;;
*) result="FAILED ($status)" ;;
esac
echo "| $name | $result | $(($(date +%s) - from)) |" | tee -a "$EXG_GPU_OUT/gpu.md"
if [ $status -ne 0 ]; then
    {
        echo "== $name: $result"
        grep -E 'ERROR|FAILED|DEV-|Invalid|error' "$log" | head -40
        echo ...
        tail -25 "$log"
    } >> "$EXG_GPU_OUT/failures.txt"
fi
exit 0

#!/bin/bash
# pages.sh EXG - what the command writes of its own tables is what shells and man take.
#
# bash completes by it here; zsh and fish are asked whether it is a script of theirs, and fish what
# it completes, where they are installed. Pages of the manual go through groff, with all warnings.
set -u
exg=$1
program=$(cd "$(dirname "$0")/../.." && pwd)/fixtures/lm.core.static.pt2
work=$(mktemp -d "${TMPDIR:-/tmp}/exg-pages.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
faults=0

fail()
{
    echo "FAILED $*"
    faults=$((faults + 1))
}

"$exg" completion bash > exg.bash
"$exg" completion zsh > _exg
"$exg" completion fish > exg.fish
. ./exg.bash

# expect WANTED WORD...: the last word is completed to these.
expect()
{
    wanted=$1
    shift
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    _exg
    [ "${COMPREPLY[*]}" = "$wanted" ] || fail "'$*' is completed to '${COMPREPLY[*]}', not to '$wanted'"
}

touch model.pt2 "two words.pt2"
expect "convert compare completion" exg co
expect "inspect" exg help ins
expect "--sort" exg inspect model.pt2 --so
expect "" exg verify model.pt2 --so
expect "file name size" exg inspect model.pt2 --sort ""
expect "size" exg inspect --sort = si
expect "name" exg inspect --json --sort n
expect "tensor" exg run --place te
expect "functionalize" exg explain --stage fun
expect "zeros" exg run --fill z
expect "bf16" exg convert --dtype b
expect "always" exg inspect --color al
# Words that stand beside others are words that commands take.
for option in --place --stage --fill --dtype; do
    COMP_WORDS=(exg run $option "")
    COMP_CWORD=3
    _exg
    for word in "${COMPREPLY[@]}"; do
        case $option in
        --place) set -- plan "$program" --mesh 2 ;;
        --stage) set -- explain "$program" ;;
        --fill) set -- run "$program" && word=${word/%:/:0:1} ;;
        --dtype) set -- convert "$program" w.gguf ;;
        esac
        "$exg" "$@" $option "$word" > out 2>&1
        ! grep -q CLI- out || fail "$option $word: $(head -n 1 out)"
    done
done
expect "bash zsh fish" exg completion ""
expect "model.pt2" exg run mod
expect "two words.pt2" exg run tw
expect "model.pt2" exg run model.pt2 --input mod
expect "" exg run model.pt2 --threads ""

if command -v zsh > /dev/null; then
    zsh -n _exg || fail "zsh does not take its completion"
fi
if command -v fish > /dev/null; then
    fish -n exg.fish || fail "fish does not take its completion"
    got=$(HOME=$work fish -c "source exg.fish; complete -C 'exg inspect x --sort '" | cut -f 1 | tr '\n' ' ')
    [ "$got" = "file name size " ] || fail "fish completes --sort to '$got'"
fi

commands=$("$exg" --help | sed -n '/^usage:/,/^options of all/ s/^  \([a-z]*\) .*/\1/p' | grep -v '^exg$')
[ "$(echo "$commands" | wc -l)" -ge 12 ] || fail "the list of commands is not read: $commands"
for command in "" $commands; do
    # shellcheck disable=SC2086
    "$exg" help $command --man > "page.1"
    grep -q '^\.SH NAME' page.1 || fail "no page of '$command'"
    if command -v groff > /dev/null; then
        groff -ww -man -Tutf8 page.1 > text 2> warnings
        [ ! -s warnings ] || fail "'$command': $(cat warnings)"
        # every option of the help is on the page
        for option in $([ -z "$command" ] || "$exg" help "$command" | sed -n 's/^  \(--[a-z-]*\) .*/\1/p'); do
            sed 's/\x1b\[[0-9;]*m//g; s/.\x08//g; s/‐/-/g' text | grep -q -e "^ *$option\b" || fail "'$command': no $option"
        done
    fi
done
"$exg" help none --man > /dev/null 2>&1 && fail "a page of no command"
"$exg" completion tcsh > /dev/null 2>&1 && fail "completion of no shell"
[ "$faults" -eq 0 ]

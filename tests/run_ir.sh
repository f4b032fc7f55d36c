#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Golden tests of graphs: each tests/ir/*.ir holds on top
#     # run: NAME,...     passes to run (with --torture), or
#     # opt: ARGS         arguments of dcprel-opt
#     # exit: N           the exit status (default 0)
# then the input, a line "----", and what dcprel-opt prints for it, errors
# included. Runs of blanks count as one. UPDATE=1 writes what is printed now
# into the files and shows the difference. Arguments: files (default: all).
srcdir=${srcdir:-.}
opt=${DCPREL_OPT:-${DCP_BUILD:-.}/dcprel-opt}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0
count=0

test $# -gt 0 || set -- "$srcdir"/tests/ir/*.ir
for file; do
    args=$(sed -n 's/^# opt: *//p;s/^# run: *\(.*\)/--torture --passes=\1/p;/^----$/q' "$file")
    want=$(sed -n 's/^# exit: *//p;/^----$/q' "$file")
    sed '/^----$/,$d' "$file" >"$work/in"
    sed '1,/^----$/d' "$file" >"$work/want"
    # shellcheck disable=SC2086
    "$opt" $args <"$work/in" >"$work/got" 2>&1
    got=$?
    count=$((count + 1))
    if test "$got" -ne "${want:-0}"; then
        echo "FAIL $file: exit status $got, expected ${want:-0}"
        cat "$work/got"
        failed=$((failed + 1))
    elif ! diff -bu "$work/want" "$work/got" >"$work/diff"; then
        failed=$((failed + 1))
        echo "FAIL $file (args: $args)"
        sed 1,2d "$work/diff"
        if test -n "$UPDATE"; then
            { cat "$work/in"; echo ----; cat "$work/got"; } >"$work/new" &&
                cp "$work/new" "$file" && echo "updated $file"
        fi
    fi
done
echo "$count graphs, $failed failed"
test "$failed" -eq 0

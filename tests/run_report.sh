#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Golden tests of dcprel-report: each tests/data/report/*.txt holds on top
#     # run: COMMAND      shell, in an empty folder; make_trace and report are
#                         the programs under test; several lines are one script
#     # exit: N           the exit status (default 0)
# then a line "----" and what the script prints, errors included. UPDATE=1
# writes what is printed now into the files and shows the difference.
# Arguments: files (default: all).
srcdir=${srcdir:-.}
build=${DCP_BUILD:-$(pwd)}
REPORT=${DCPREL_REPORT:-$build/dcprel-report}
MAKE_TRACE=${MAKE_TRACE:-$build/tests/make_trace}
source=$(cd "$srcdir" && pwd)
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0
count=0
TZ=UTC LC_ALL=C
export REPORT MAKE_TRACE TZ LC_ALL

test -x "$MAKE_TRACE" || { echo "no $MAKE_TRACE"; exit 99; }
cat >"$work/functions" <<'END'
make_trace() { mkdir -p "$(dirname "$2")"; "$MAKE_TRACE" "$@"; }
report() { "$REPORT" "$@"; }
END
test $# -gt 0 || set -- "$source"/tests/data/report/*.txt
for file; do
    rm -rf "$work/here"
    mkdir "$work/here"
    { cat "$work/functions"; sed -n 's/^# run: *//p;/^----$/q' "$file"; } \
        >"$work/script"
    want=$(sed -n 's/^# exit: *//p;/^----$/q' "$file")
    sed '1,/^----$/d' "$file" >"$work/want"
    (cd "$work/here" && sh ../script) >"$work/got" 2>&1
    got=$?
    count=$((count + 1))
    if test "$got" -ne "${want:-0}"; then
        echo "FAIL $file: exit status $got, expected ${want:-0}"
        cat "$work/got"
        failed=$((failed + 1))
    elif ! diff -u "$work/want" "$work/got" >"$work/diff"; then
        failed=$((failed + 1))
        echo "FAIL $file"
        sed 1,2d "$work/diff"
        if test -n "$UPDATE"; then
            { sed '/^----$/q' "$file"; cat "$work/got"; } >"$work/new" &&
                cp "$work/new" "$file" && echo "updated $file"
        fi
    fi
done
echo "$count reports, $failed failed"
test "$failed" -eq 0

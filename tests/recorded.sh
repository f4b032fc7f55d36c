#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The passes, on iterations of real programs: each tests/data/*.log is lifted
# to IR, which must be sound, keep sound through the placement pass, and come
# out with an arena not much larger than what lives in it at the same time.
srcdir=${srcdir:-.}
build=${DCP_BUILD:-.}
opt=${DCPREL_OPT:-$build/dcprel-opt}
lift=${LIFT_LOG:-$build/tests/lift_log}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0
count=0

# $1: printed graph. The arena, the peak of what lives in it, their ratio and
# whether that is at most 1.10.
weigh() {
    awk '/^step/ { for (i = 1; i <= NF; i++)
                       if ($i ~ /^arena=/) arena = substr($i, 7) }
         /^buf/ { for (i = 1; i <= NF; i++) {
                      if ($i ~ /^bytes=/) bytes[$2] = substr($i, 7)
                      if ($i ~ /^at=/) { placed[$2] = 1; buffers++ } } }
         / alloc / && placed[$3] { live += bytes[$3]
                                   if (live > peak) peak = live }
         / free / && placed[$3] { live -= bytes[$3] }
         END { ratio = peak ? arena / peak : 9
               printf "%d buffers in %d bytes, %.4f of their peak\n",
                      buffers, arena, ratio
               exit !(ratio >= 1 && ratio <= 1.10) }' "$1"
}

fail() {
    echo "FAIL $name: $1"
    failed=$((failed + 1))
}

for log in "$srcdir"/tests/data/*.log; do
    name=$(basename "$log" .log)
    count=$((count + 1))
    if ! "$lift" "$log" >"$work/in"; then
        fail "not lifted"
    elif ! "$opt" --verify "$work/in" >/dev/null; then
        fail "the lifted graph is not sound"
    elif ! "$opt" --torture --passes=place -o "$work/out" "$work/in" ||
        ! "$opt" --verify "$work/out" >/dev/null; then
        fail "the pass was undone, or the graph is not sound after it"
    elif ! text=$(weigh "$work/out"); then
        fail "$text"
    elif ! "$opt" --simulate "$work/out" >"$work/times"; then
        fail "no times"
    else
        echo "$name: $text"
    fi
done
echo "$count iterations, $failed failed"
test "$failed" -eq 0 && test "$count" -gt 0

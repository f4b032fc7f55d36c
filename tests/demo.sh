#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Trains a small transformer on a text without and with the library, and shows
# what that changes: the time of a step, and nothing else. On the GPU if there
# is one, else on the simulated driver.
#
# DCPREL_DEMO_DIR   where the report and the runs' output go (default: demo in
#                   the build folder)
set -u

build=${DCP_BUILD:-$PWD}
programs=${DCPREL_PROGRAMS:-$build/tests/programs}
preload=${DCPREL_LIB:-${DCP_PRELOAD:-$build/.libs/libdcprel.so}}
sim=${DCPREL_SIM_DIR:-${DCP_SIM:-$build/tests/sim/.libs}}
report=${DCPREL_REPORT:-$build/dcprel-report}
out=${DCPREL_DEMO_DIR:-$build/demo}

mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
rm -rf "$out/trace"
mkdir -p "$out/trace"
page=$out/memory.html
rm -f "$page"
echo "memory report: $page"
echo

program=$programs/transformer
vars=()
if "$program" --steps 1 >"$out/probe" 2>&1; then
    options=(--steps 300 --layers 8 --hidden 128 --heads 4 --seq 64 --batch 2)
else
    reason=$(tail -n 1 "$out/probe")
    vars=("LD_LIBRARY_PATH=$sim")
    options=(--steps 80 --layers 2 --hidden 48 --heads 2 --seq 32 --batch 2)
    echo "no GPU here ($reason):"
    echo "this is the simulated driver, whose kernels run on the processor;" \
        "step times say little about a GPU"
    echo
fi
options+=(--opt adam --rate 3e-3 --clip 1 --times)
steps=${options[1]}

progress() {
    if [ -t 2 ]; then
        printf '\r\033[K%s' "$1" >&2
    fi
}

# train NAME ROUND [NAME=VALUE]...
train() {
    local name=$1 round=$2 status
    shift 2
    progress "training: $name, round $round of 2"
    env -u DC_CONFIG -u LD_PRELOAD "${vars[@]}" "$@" \
        "$program" "${options[@]}" >"$out/$name.out" 2>"$out/$name.err"
    status=$?
    progress ""
    if [ "$status" != 0 ]; then
        echo "the run '$name' failed (exit status $status):"
        tail -n 5 "$out/$name.out" "$out/$name.err"
        exit 1
    fi
    median_of "$name" >>"$out/$name.medians"
}

# The median of the second half: everything has settled by then.
median_of() {
    awk -v from=$((steps / 2)) '$1 == "step" && $2 >= from { print $4 }' \
        "$out/$1.err" | sort -n | awk '{ t[NR] = $1 }
        END { printf "%.3f\n", t[int((NR + 1) / 2)] }'
}

rm -f "$out/"*.medians
cat >"$out/dc.json" <<JSON
{
    "zero_optimization": {"stage": 0},
    "dcprel": {"trace_dir": "$out/trace"}
}
JSON

# In alternation, so that a busy machine is unfair to both.
for round in 1 2; do
    train plain "$round"
    rm -f "$out/trace/"*
    train preloaded "$round" LD_PRELOAD="$preload" DC_CONFIG="$out/dc.json"
done

# ---- figures -----------------------------------------------------------------

loss_of() {
    printf '%.4f' "$(awk -v s="$2" '$1 == "step" && $2 == s { print $4 }' \
        "$out/$1.out")"
}

params_of() {
    sed -n 's/^params \([0-9a-f]*\) .*/\1/p' "$out/$1.out"
}

"$report" summary --format json "$out/trace" >"$out/summary.json" 2>/dev/null

fact() {
    sed -n "s/.*\"$1\": *\\([0-9.e+-]*\\).*/\\1/p" "$out/summary.json" |
        head -n 1
}

if cmp -s "$out/plain.out" "$out/preloaded.out"; then
    verdict="equal, bit for bit"
    status=0
else
    verdict="DIFFERENT"
    status=1
fi

before=$(sort -n "$out/plain.medians" | head -n 1)
after=$(sort -n "$out/preloaded.medians" | head -n 1)
row() {
    printf '%-24s %18s %18s   %s\n' "$1" "$2" "$3" "$4"
}
echo "device: $(sed -n 's/^device //p' "$out/plain.err")"
echo "model: a transformer of $(sed -n 's/^weights //p' "$out/plain.err")" \
    "weights, $steps steps of AdamW on the bytes of a licence text"
echo
row "" plain preloaded ""
row "step time (median)" "$before ms" "$after ms" \
    "$(awk -v a="$before" -v b="$after" \
        'BEGIN { if (b > 0) printf "%.2f times as fast", a / b }')"
for step in 0 $((steps / 10)) $((steps / 2)) $((steps - 1)); do
    row "loss at step $step" "$(loss_of plain $step)" \
        "$(loss_of preloaded $step)" ""
done
row "all $steps losses" "" "" "$verdict"
row "weights and states" "$(params_of plain)" "$(params_of preloaded)" \
    "$verdict"

followed=$(fact followed)
iterations=$(fact iterations)
if [ -n "$followed" ] && [ -n "$iterations" ]; then
    row "iterations replayed" "-" "$followed of $iterations" \
        "$(awk -v s="$(fact share)" -v w="$(fact share_after_warmup)" \
            'BEGIN { printf "%.0f %% of all, %.0f %% after the warm-up",
                            100 * s, 100 * w }')"
fi

if ! "$report" memory --format html "$out/trace" >"$page" 2>"$out/report.err"
then
    echo
    echo "no memory report: $(tail -n 1 "$out/report.err")"
    status=1
fi
exit "$status"

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes allocations of the library fail, one in each run: the program must print
# what it prints without the library, and nothing may hang or die.
#
#   sweep_alloc.sh [PROGRAM [OPTION]...]    default: a transformer, dynamic
#
# DCP_RUNS          runs a program (default: 300, with a sanitizer 30); as many
#                   allocations are tried, all of them when they are not more
#
# The rest of the environment is that of run_programs.sh.
set -u

build=${DCP_BUILD:-$PWD}
programs=${DCPREL_PROGRAMS:-$build/tests/programs}
preload=${DCPREL_LIB:-${DCP_PRELOAD:-$build/.libs/libdcprel.so}}
sim=${DCPREL_SIM_DIR:-${DCP_SIM:-$build/tests/sim/.libs}}
limit=${DCPREL_TIMEOUT:-30}
most=${DCP_RUNS:-$([ -n "${DCP_SANITIZERS:-}" ] && echo 30 || echo 300)}

if [ ! -x "$programs/transformer" ] || [ ! -e "$sim/libcuda.so.1" ] ||
    [ ! -e "${preload##* }" ]; then
    echo "SKIP: no programs in $programs, no simulated driver in $sim, or no" \
        "library at $preload"
    exit 77
fi

dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
cat >"$dir/config.json" <<JSON
{
    "zero_optimization": {"stage": 0},
    "dcprel": {"trace_dir": "$dir/trace"}
}
JSON

# run OUT [NAME=VALUE]...: the run's exit status
run() {
    local out=$1
    shift
    rm -rf "$dir/trace"
    env -u DC_CONFIG -u LD_PRELOAD LD_LIBRARY_PATH="$sim" "$@" \
        timeout "$limit" "${program[@]}" >"$out" 2>"$out.err"
}

failed=0 runs=0

try() {
    local at=$1 status
    run "$dir/this" LD_PRELOAD="$preload" DC_CONFIG="$dir/config.json" \
        DCPREL_TEST_FAIL_ALLOC="$at"
    status=$?
    runs=$((runs + 1))
    if [ "$status" = 0 ] && cmp -s "$dir/plain" "$dir/this"; then
        return
    fi
    echo "FAIL: allocation $at of $total: exit status $status"
    diff "$dir/plain" "$dir/this" | head -n 4 | sed 's/^/    /'
    tail -n 3 "$dir/this.err" | sed 's/^/    stderr: /'
    failed=$((failed + 1))
}

fails() {
    run "$dir/this" LD_PRELOAD="$preload" DC_CONFIG="$dir/config.json" \
        DCPREL_TEST_FAIL_ALLOC="$1"
    grep -q 'as the test wants' "$dir/this.err"
}

# How many allocations a run makes, about.
count() {
    local low=0 high=64 mid
    while fails "$high"; do
        low=$high
        high=$((high * 2))
    done
    while ((high - low > 1 + low / 50)); do
        mid=$(((low + high) / 2))
        if fails "$mid"; then low=$mid; else high=$mid; fi
    done
    echo "$low"
}

sweep() {
    local step
    echo "# ${program[*]##*/}"
    run "$dir/plain" || echo "FAIL: the plain run"
    total=$(count)
    if [ "$total" -lt 100 ]; then
        echo "FAIL: only $total allocations were counted"
        failed=$((failed + 1))
        return
    fi
    step=$(((total + most - 1) / most))
    # An odd step meets all of a kind that comes back every so often.
    step=$((step + (step + 1) % 2))
    for ((at = 1; at <= total; at += step)); do
        try "$at"
    done
}

if [ $# -gt 0 ]; then
    program=("$programs/$1" "${@:2}")
    sweep
else
    program=("$programs/transformer" --steps 24 --layers 1 --hidden 16 --seq 16
        --opt adam_multi --clip 1)
    sweep
    program=("$programs/dynamic")
    sweep
fi
echo "$runs runs, $failed failed"
[ "$failed" = 0 ]

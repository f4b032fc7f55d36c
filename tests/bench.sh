#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `make bench`: what the library costs a call, on the simulated driver.
#
# Instructions are those executed inside libdcprel.so, counted by callgrind:
# two runs that differ in nothing but the number of iterations, the difference
# divided by the calls in it. Nanoseconds are the program's own, plain beside
# preloaded, in alternation. Exits 1 when a count is over its limit.
set -u
top=${DCP_BUILD:-$PWD}
lib=${DCPREL_LIB:-$top/.libs/libdcprel.so}
sim=${DCPREL_SIM_DIR:-$top/tests/sim/.libs}
program=$top/tests/programs/manykernels
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo '{}' > "$work/dc.json"
status=0

command -v valgrind > /dev/null || { echo "valgrind is not installed"; exit 77; }

# Self cost of one object in a callgrind profile. A line after calls= is what
# the callee took.
object_cost() {
    awk -v want="$2" '
        /^c?ob=/ { caller = /^ob=/; name = $0; sub(/^c?ob=/, "", name)
                   if (match(name, /^\([0-9]+\) /)) {
                       id = substr(name, 1, RLENGTH - 1)
                       name = substr(name, RLENGTH + 1); known[id] = name
                   } else name = known[name]
                   if (caller) inside = index(name, want) > 0
                   next }
        /^calls=/ { skip = 1; next }
        /^[0-9+*-]/ { if (skip) { skip = 0; next }
                      if (inside) sum += $2 }
        END { printf "%d\n", sum }' "$1"
}

counted() { # config or "", arguments...
    local config=$1 out=$work/profile.$RANDOM
    shift
    env ${config:+DC_CONFIG="$config"} LD_PRELOAD="$lib" LD_LIBRARY_PATH="$sim" \
        valgrind --tool=callgrind --callgrind-out-file="$out" \
        "$program" "$@" > "$work/stdout" 2> "$work/stderr" ||
        { cat "$work/stderr" >&2; echo 0; return; }
    object_cost "$out" libdcprel
}

per_call() { # label, limit, calls an iteration, config, arguments...
    local label=$1 limit=$2 calls=$3 config=$4 few many each
    shift 4
    few=$(counted "$config" --iterations 30 "$@")
    many=$(counted "$config" --iterations 60 "$@")
    each=$(( (many - few) / (30 * calls) ))
    local verdict=ok
    if [ "$many" -le "$few" ] && [ -n "$config" ] || [ "$each" -gt "$limit" ]; then
        verdict=OVER
        status=1
    fi
    printf '%-44s %6d instructions (limit %d) %s\n' "$label" "$each" "$limit" \
        "$verdict"
}

nanoseconds() { # label of the program's line, config or ""
    env ${2:+DC_CONFIG="$2" LD_PRELOAD="$lib"} LD_LIBRARY_PATH="$sim" \
        "$program" --iterations 60 2>&1 > /dev/null |
        awk -v want="$1" '$1 == want { print $2 }'
}

median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

per_call "followed launch, 64 bytes of arguments" 1000 1000 "$work/dc.json" \
    --launches 1000 --allocs 0
per_call "followed allocation (or its free)" 150 8000 "$work/dc.json" \
    --launches 16 --allocs 4000
per_call "watched call (without DC_CONFIG)" 120 1000 "" \
    --launches 1000 --allocs 0

for label in launch_ns alloc_free_ns; do
    for i in 1 2 3 4 5; do
        nanoseconds "$label" "" >> "$work/$label.plain"
        nanoseconds "$label" "$work/dc.json" >> "$work/$label.followed"
    done
    printf '%-44s %8.1f plain %8.1f followed, simulated driver\n' "$label" \
        "$(median < "$work/$label.plain")" "$(median < "$work/$label.followed")"
done
if [ -x "$top/tests/bench_analysis" ]; then
    "$top/tests/bench_analysis" || status=1
fi
exit $status

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes each driver function fail in turn, at its first call, in the middle and
# at its last, in a short training run on the simulated driver, without and
# with the library. Then either the program must print that very error (after
# the same losses as ever) and give everything back, or the run must end as if
# nothing had happened: a failure that only the library can see must not harm
# the program. Nothing may hang or die. Then kernels go wrong.
#
#   sweep.sh [FUNCTION]...    only these functions
#
# The environment is that of run_programs.sh; with DCP_FULL set, more programs
# are run, with DCP_EVERY set, every call fails once.
set -u

build=${DCP_BUILD:-$PWD}
programs=${DCPREL_PROGRAMS:-$build/tests/programs}
preload=${DCPREL_LIB:-${DCP_PRELOAD:-$build/.libs/libdcprel.so}}
sim=${DCPREL_SIM_DIR:-${DCP_SIM:-$build/tests/sim/.libs}}
limit=${DCPREL_TIMEOUT:-30}
wanted=" $* "

# program and options, one run a line
programs_to_sweep() {
    echo "transformer --steps 20 --layers 1 --hidden 16 --seq 16" \
        "--opt adam_multi --clip 1"
    [ -n "${DCP_FULL:-}" ] || return
    cat <<'PROGRAMS'
transformer --steps 20 --layers 1 --alloc pool --door cudart --launch kernelex
transformer --steps 20 --layers 1 --sync stream --alloc sync --door getproc
twostreams --steps 20
hostfunc --steps 20
owngraph --steps 4
unload --steps 24 --every 12
pageable --steps 16
timing --steps 16
threads --quiet --steps 16
PROGRAMS
}

if [ ! -x "$programs/transformer" ] || [ ! -e "$sim/libcuda.so.1" ]; then
    echo "SKIP: no programs in $programs, or no simulated driver in $sim"
    exit 77
fi

dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/trace"
echo '{"zero_optimization": {"stage": 0}}' >"$dir/config.json"

# run OUT [NAME=VALUE]...: the run's exit status
run() {
    local out=$1
    shift
    env -u DC_CONFIG -u LD_PRELOAD LD_LIBRARY_PATH="$sim" DCPSIM_LEAKS=1 \
        "$@" timeout "$limit" "${program[@]}" >"$out" 2>"$out.err"
}

# What the run has left behind, one kind a line; frames, reservations and
# mappings belong to the library for as long as the process lives.
leaks_of() {
    sed -n 's/^dcpsim: live //p' "$1.err" | tail -n 1 | awk '{
        for (i = 1; i < NF; i += 2)
            if ($i != "frames" && $i != "reservations" && $i != "mappings")
                print $i, $(i + 1) }'
}

failed=0 runs=0

fail() {
    echo "FAIL: $*"
    failed=$((failed + 1))
}

# How often each function may fail: the first, middle, late and last call, or
# with DCP_EVERY set every one.
places() {
    if [ -n "${DCP_EVERY:-}" ]; then
        seq 1 "$1"
        return
    fi
    awk -v n="$1" 'BEGIN {
        split("1 " int((n + 1) / 2) " " int(3 * n / 4) " " n, at, " ")
        for (i = 1; i <= 4; i++)
            if (at[i] >= 1 && !(at[i] in seen)) {
                seen[at[i]] = 1
                print at[i]
            }
    }'
}

code_of() {
    case $1 in
    cuMemAlloc* | cuMemCreate* | cuMemHostAlloc*) echo 2 ;;
    cuMemAddressReserve*) echo 2 ;;
    *) echo 999 ;;
    esac
}

# judge WHAT STATUS CODE FUNCTION: what a run with a failing call may look like
judge() {
    local what=$1 status=$2 code=$3 error lines
    if [ "$status" = 124 ]; then
        fail "$what: hangs"
        return
    fi
    if [ "$status" != 0 ] && [ "$status" != 3 ]; then
        fail "$what: exit status $status"
        tail -n 3 "$dir/this.err" | sed 's/^/    /'
        return
    fi
    error=$(grep '^error ' "$dir/this" | head -n 1)
    if [ -z "$error" ]; then
        cmp -s "$dir/good" "$dir/this" ||
            fail "$what: other output, and no error"
    else
        lines=$(grep -n '^error ' "$dir/this" | head -n 1 | cut -d : -f 1)
        if ! cmp -s <(head -n $((lines - 1)) "$dir/this") \
            <(head -n $((lines - 1)) "$dir/good"); then
            fail "$what: other output before the error"
        elif [ "${error##* }" != "$code" ] && [ "${error#error door}" = \
            "$error" ]; then
            fail "$what: the program got '$error'"
        elif ! grep -q "^$(echo "$error" | cut -d ' ' -f 2)" \
            "$dir/calls.plain" && [ "${error#error door}" = "$error" ]; then
            fail "$what: the program got '$error'"
        fi
    fi
    leaves_nothing "$4" || fail "$what: leaves things behind"
}

# leaves_nothing FUNCTION: no more than the run without failures. What a call
# that gives something back could not give back stays, of course; and a library
# that was stopped early keeps its module, its page of host memory and the
# events that it measures calls with.
leaves_nothing() {
    case $way:$1 in
    *:cuCtxSetCurrent) return 0 ;; # nothing can be given back without a context
    plain:*) ;;
    *Destroy* | *Free* | *Unload* | *Release* | *Unregister*) return 0 ;;
    esac
    diff <(leaks_of "$dir/this") "$dir/leaks" | awk -v way="$way" '
        /^</ { now[$2] = $3 }
        /^>/ { then[$2] = $3 }
        END {
            if (way != "plain") {
                then["modules"] += 1
                then["pinned"] += 1
                then["events"] += 200
            }
            for (k in now)
                if (now[k] > then[k]) {
                    print "    " k, now[k]
                    bad = 1
                }
            exit bad
        }'
}

# A function that the program does not call itself is the library's business;
# out of memory is not, nor is the wait that freeing at once implies.
judge_inside() {
    local function=$1 what=$2
    # A name without a suffix stands for all its versions.
    grep -Eq "^$function(_v[0-9])?(_ptsz|_ptds)? " "$dir/calls.plain" && return
    [ "$(code_of "$function")" = 2 ] && return
    [ "$function" = cuCtxSynchronize ] && return
    if grep -q "^error .* $(code_of "$function")\$" "$dir/this"; then
        fail "$what: a failure inside reaches the program:" \
            "$(grep '^error ' "$dir/this")"
    fi
}

# sweep WAY [NAME=VALUE]...
sweep() {
    local function count at code status
    way=$1
    shift
    run "$dir/this" DCPSIM_COUNT="$dir/calls.$way" "$@"
    if ! cmp -s "$dir/good" "$dir/this"; then
        fail "$way: the run without failures differs from plain"
        return
    fi
    leaks_of "$dir/this" >"$dir/leaks"
    while read -r function count; do
        case $wanted in "  " | *" $function "*) ;; *) continue ;; esac
        code=$(code_of "$function")
        for at in $(places "$count"); do
            run "$dir/this" DCPSIM_FAIL="$function:$at=$code" "$@"
            status=$?
            judge "$way, $function call $at of $count" "$status" "$code" \
                "$function"
            [ "$way" = plain ] ||
                judge_inside "$function" "$way, $function call $at of $count"
            runs=$((runs + 1))
        done
    done < <(sort "$dir/calls.$way")
}

# A kernel that goes wrong on the device: a later call, whichever comes first to
# know of it, must say so, and no other thing than that.
faults() {
    local kernel at status lines what
    way=$1
    shift
    [ "$wanted" = "  " ] || return
    for kernel in copy axpy; do
        for at in 1 4 9 12 13 18; do
            what="$way, kernel $kernel goes wrong at $at"
            run "$dir/this" DCPSIM_FAULT="$kernel:$at=719" "$@"
            status=$?
            runs=$((runs + 1))
            if [ "$status" != 3 ] || ! grep -q '^error .* 719$' "$dir/this"
            then
                fail "$what: exit status $status"
            fi
            lines=$(grep -c -v '^error ' "$dir/this")
            cmp -s <(grep -v '^error ' "$dir/this") \
                <(head -n "$lines" "$dir/good") ||
                fail "$what: other output before the error"
        done
    done
}

have_library=1
for file in $preload; do
    [ -e "$file" ] || have_library=0
done
[ "$have_library" = 1 ] || echo "note: no library at $preload: plain runs only"

while read -r line; do
    read -r -a program <<<"$programs/$line --keep"
    echo "# $line"
    run "$dir/good"
    sweep plain
    if grep -v '^contexts ' "$dir/leaks" | grep -qv ' 0$'; then
        fail "plain: leaves things behind: $(tr '\n' ' ' <"$dir/leaks")"
    fi
    [ "$have_library" = 1 ] || continue
    sweep watched LD_PRELOAD="$preload"
    sweep replayed LD_PRELOAD="$preload" DC_CONFIG="$dir/config.json"
    case $line in transformer*--clip*) ;; *) continue ;; esac
    faults watched LD_PRELOAD="$preload"
    faults replayed LD_PRELOAD="$preload" DC_CONFIG="$dir/config.json"
done < <(programs_to_sweep)
echo "$runs runs, $failed failed"
[ "$failed" = 0 ]

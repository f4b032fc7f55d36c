#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the test programs without the library, preloaded without a
# configuration, preloaded with one, and once more with the simulated driver's
# work spread out at random: the standard output must be the same, byte for
# byte, and so must the exit status.
#
#   run_programs.sh [GROUP]...    groups: training doors memory order
#                                 life keys
#
# DCPREL_LIB        the library (default: the build's)
# DCPREL_SIM_DIR    where the simulated driver lies; empty: use the real one
# DCPREL_PROGRAMS   where the programs lie (default: the build's)
# DCPREL_SEEDS      seeds of the simulated driver's jitter (default: "1 2", with
#                   a sanitizer none)
# DCPREL_ONLY       run only cases whose name holds this
set -u

build=${DCP_BUILD:-$PWD}
programs=${DCPREL_PROGRAMS:-$build/tests/programs}
preload=${DCPREL_LIB:-${DCP_PRELOAD:-$build/.libs/libdcprel.so}}
sim=${DCPREL_SIM_DIR-${DCP_SIM:-$build/tests/sim/.libs}}
seeds=${DCPREL_SEEDS-$([ -n "${DCP_SANITIZERS:-}" ] || echo 1 2)}
only=${DCPREL_ONLY:-}
report=${DCPREL_REPORT:-$build/dcprel-report}
limit=${DCPREL_TIMEOUT:-120}
groups=${*:-training doors memory order life keys}

# group, share of the iterations that must be replayed in percent (-: any, x:
# any, and the program ends with an error), keys of the configuration and
# environment, program and options
cases() {
    cat <<'CASES'
training 60 transformer
training 60 transformer --opt adam_multi --clip 1
training 60 transformer --opt sgd --print-every 5 --sync event
training 60 transformer --opt lamb
training 60 transformer --opt lamb --clip 0.5 --hostclip
training 60 transformer --accum 4 --clip 1 --steps 16
training 60 transformer --eval-every 5 --steps 30
training 60 transformer --dropout 0.1
training 60 transformer --flat --opt adam_multi
training 60 transformer --layers 4 --hidden 16 --seq 16
training 60 transformer --sync stream
training 60 transformer --sync ctx
training - transformer --steps 1
training - transformer --steps 3 --print-every 2
training 60 transformer --rounded
training - transformer --quit 15
training 60 dynamic
training - dynamic --irregular --steps 40
doors 60 transformer_direct
doors 60 transformer_direct_ptds
doors 60 transformer --door default --launch extra
doors 60 transformer --door getproc --launch kernel
doors 60 transformer --door getproc1 --launch ex
doors 60 transformer --door cudart --launch kernelex
doors 60 transformer --door cudart --launch kernelex --stream legacy
doors - transformer --door cudart --launch kernelex --stream ptds
doors - transformer --door dlsym --stream ptds
doors 60 transformer --stream blocking
doors - transformer --stream perthread
memory 60 transformer --alloc pool
memory - transformer --alloc sync
memory 60 transformer --alloc own
memory 60 transformer --alloc own --flat
memory - tensors
memory - tensors --alloc sync
memory - oddfrees
memory - oddfrees --stream blocking
memory - pageable
memory - pageable --stream legacy
memory 60 queries
memory - variety
memory - variety --stream ptds
memory - manykernels --iterations 20 --launches 200 --allocs 200
order - twostreams
order - threads
order 60 threads --quiet
order 60 hostfunc
order - hostfunc --stream legacy
order - mapped
order 60 timing
order - timing --stream ptds
life 60 forkafter
life - forkafter --mode exec
life - forkafter --mode before
life 60 forkafter --mode loader
life x CUDA_VISIBLE_DEVICES= transformer
life - owngraph
life - owngraph --kernels 5000 --steps 2
life - owngraph --alloc own
life - contexts
life - contexts --mode reset
life - contexts --mode busy
life - contexts --mode second
life - contexts --mode created
life 60 shortlived
life - shortlived --quit
life - unload
life - unload --launch kernel --every 4
life - errors
life - errors --every 1 --steps 12
keys 60 dcprel.memory_budget=1MiB transformer
keys - dcprel.memory_budget=50% dynamic
keys - dcprel.segment_nodes=1 transformer --opt adam_multi
keys 60 dcprel.segment_nodes=7 transformer
keys - dcprel.segment_nodes=7 dynamic
keys - dcprel.segment_nodes=7 twostreams
keys - dcprel.segment_nodes=7 hostfunc
keys - dcprel.segment_nodes=7 tensors
keys 60 dcprel.segment_nodes=1000000 dcprel.segment_ms=10000 transformer
keys - dcprel.segment_nodes=1000000 dcprel.segment_ms=10000 mapped
keys - dcprel.segment_ms=0.01 twostreams
keys 60 dcprel.warmup=2 transformer
keys 60 dcprel.warmup=8 transformer
keys 60 dcprel.verify=2 transformer --dropout 0.1 --clip 1
keys - dcprel.verify=1 dynamic
keys - dcprel.verify=1 hostfunc
keys - dcprel.max_variants=1 dynamic
keys - dcprel.max_variants=2 dynamic --irregular --steps 40
keys 60 dcprel.large_bytes=4096 transformer
keys 60 dcprel.skip_passes=place transformer
keys - dcprel.enabled=false transformer
keys - dcprel.allocator=program transformer
keys - dcprel.trace_stacks=true transformer
CASES
}

dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT

# run OUT [NAME=VALUE]... -- PROGRAM [OPTION]...
run() {
    local out=$1
    shift
    local -a vars=()
    while [ "$1" != -- ]; do
        vars+=("$1")
        shift
    done
    shift
    while [ "${1#*=}" != "$1" ]; do
        case $1 in dcprel.*) ;; *) vars+=("$1") ;; esac
        shift
    done
    local program=$1
    shift
    if [ -n "$sim" ]; then
        vars+=("LD_LIBRARY_PATH=$sim")
    fi
    env -u DC_CONFIG -u LD_PRELOAD "${vars[@]}" timeout "$limit" \
        "$programs/$program" "$@" >"$out" 2>"$out.err"
    echo "status $?" >>"$out"
}

# Where the library's trace says what share of the iterations was replayed.
share_of() {
    "$report" summary --format json "$1" 2>/dev/null |
        sed -n 's/.*"share_after_warmup": *\([0-9.]*\).*/\1/p' | head -n 1
}

# Writes the configuration with the keys among the case's words.
configure() {
    local word value keys=
    for word; do
        case $word in dcprel.*=*) ;; *) continue ;; esac
        value=${word#*=}
        case $value in
        true | false) ;;
        *[!0-9.]*) value="\"$value\"" ;;
        esac
        word=${word%%=*}
        [ "$word" = dcprel.skip_passes ] && value="[$value]"
        keys+=", \"${word#dcprel.}\": $value"
    done
    rm -rf "$dir/trace"
    mkdir -p "$dir/trace"
    cat >"$dir/config.json" <<JSON
{
    "zero_optimization": {"stage": 0},
    "dcprel": {"trace_dir": "$dir/trace"$keys}
}
JSON
}

failed=0 passed=0

fail() {
    echo "FAIL: $1: ${*:2}"
    failed=$((failed + 1))
}

# same NAME WAY: whether the run printed what the plain one did
same() {
    if cmp -s "$dir/plain" "$dir/this"; then
        return 0
    fi
    fail "$1" "$2 differs from plain"
    diff "$dir/plain" "$dir/this" | head -n 8 | sed 's/^/    /'
    tail -n 4 "$dir/this.err" | sed 's/^/    stderr: /'
    return 1
}

# Under a sanitizer a program is too slow for its calls to be held back long.
check_share() {
    local name=$1 least=$2 share
    case $least in - | x) return 0 ;; esac
    [ -x "$report" ] && [ -z "${DCP_SANITIZERS:-}" ] || return 0
    share=$(share_of "$dir/trace")
    if ! awk -v s="${share:-0}" -v l="$least" \
        'BEGIN { exit !(s * 100 >= l) }'; then
        fail "$name" "share of iterations followed: ${share:-none}," \
            "at least $least % expected"
        return 1
    fi
}

run_case() {
    local least=$1 seed
    shift
    local name="$*"
    run "$dir/plain" -- "$@"
    if [ "$least" != x ] && ! grep -q '^status 0$' "$dir/plain"; then
        fail "$name" "the plain run ends with $(tail -n 1 "$dir/plain")"
        return
    fi
    if [ -n "$sim" ]; then
        run "$dir/this" DCPSIM_JITTER=9 -- "$@"
        same "$name" "plain with jitter" || return
    fi
    if [ "$have_library" = 1 ]; then
        run "$dir/this" LD_PRELOAD="$preload" -- "$@"
        same "$name" "watched" || return
        configure "$@"
        run "$dir/this" LD_PRELOAD="$preload" DC_CONFIG="$dir/config.json" \
            -- "$@"
        same "$name" "replayed" || return
        check_share "$name" "$least" || return
        for seed in ${sim:+$seeds}; do
            run "$dir/this" LD_PRELOAD="$preload" DCPSIM_JITTER="$seed" \
                DC_CONFIG="$dir/config.json" -- "$@"
            same "$name" "replayed with jitter $seed" || return
        done
    fi
    echo "PASS: $name"
    passed=$((passed + 1))
}

have_library=1
for file in $preload; do
    [ -e "$file" ] || have_library=0
done
if [ ! -x "$programs/transformer" ]; then
    echo "SKIP: no programs in $programs"
    exit 77
fi
if [ -n "$sim" ] && [ ! -e "$sim/libcuda.so.1" ]; then
    echo "SKIP: no simulated driver in $sim"
    exit 77
fi
[ "$have_library" = 1 ] || echo "note: no library at $preload: plain runs only"

while read -r group least command; do
    case " $groups " in *" $group "*) ;; *) continue ;; esac
    case $command in *"$only"*) ;; *) continue ;; esac
    # shellcheck disable=SC2086
    run_case "$least" $command
done < <(cases)

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]

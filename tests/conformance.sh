#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The simulated driver: it answers as tests/sim/conformance.expect says, in any
# order of execution; that is what a real GPU answered (conformance.real) but
# for what conformance.known names; it exports what the real one exports;
# random work gives the right numbers; and its own switches work.
#
#   UPDATE=1 conformance.sh    writes the expected answers anew
set -u

build=${DCP_BUILD:-$PWD}
source=${DCP_SOURCE:-$PWD}
sim=${DCP_SIM:-$build/tests/sim/.libs}
ask=$build/tests/sim/conformance
probe=$build/tests/sim/probe
image=$build/tests/programs/kernels.so
ptx=$build/tests/programs/kernels.ptx
expect=$source/tests/sim/conformance.expect
real=$source/tests/sim/conformance.real
known=$source/tests/sim/conformance.known
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT
export LD_LIBRARY_PATH=$sim
failed=0

same() { # same WHAT EXPECTED: compares $dir/this with a file
    if ! diff -u "$2" "$dir/this" >"$dir/diff"; then
        echo "FAIL: $1"
        head -n 20 "$dir/diff"
        failed=1
    fi
}

answers() { # answers WHAT [NAME=VALUE]... -- COMMAND...: stdin is expected
    local what=$1 settings=()
    shift
    while [ "$1" != -- ]; do
        settings+=("$1")
        shift
    done
    shift
    cat >"$dir/wanted"
    env "${settings[@]}" "$@" >"$dir/this" 2>&1
    same "$what" "$dir/wanted"
}

"$ask" "$image" >"$dir/this" 2>"$dir/errors" || cat "$dir/errors"
if [ -n "${UPDATE:-}" ]; then
    diff -u "$expect" "$dir/this"
    cp "$dir/this" "$expect"
fi
same "answers" "$expect"

# What a GPU answered: nothing but what is known to differ may differ, and
# nothing may be known to differ that does not.
diff "$real" "$expect" | sed -n 's/^[<>] \(? \)\?\([^ ]*\) .*/\2/p' |
    sort -u >"$dir/this"
sed -n 's/^\([^# ][^ ]*\).*/\1/p' "$known" | sort -u >"$dir/wanted"
same "differences from a real driver" "$dir/wanted"

for seed in 1 2; do
    DCPSIM_JITTER=$seed DCPSIM_POISON=255 "$ask" "$image" >"$dir/this"
    same "answers with DCPSIM_JITTER=$seed" "$expect"
done

for seed in 1 2 3; do
    "$build/tests/sim/stress" "$image" $seed 2000 >"$dir/this" &&
        DCPSIM_JITTER=$seed DCPSIM_POISON=255 \
            "$build/tests/sim/stress" "$image" $seed 600 >"$dir/this" ||
        { echo "FAIL: random work"; cat "$dir/this"; failed=1; }
done

sed -n 's/^SIM_ENTRY(.*, \(cu[A-Za-z0-9_]*\))$/\1/p' \
    "$source/tests/sim/sim_entry.def" | sort >"$dir/wanted"
nm -D --defined-only "$sim/libcuda.so.1" | sed -n 's/.* [TW] \(cu.*\)/\1/p' |
    sort >"$dir/this"
same "exports" "$dir/wanted"

if [ -e "$ptx" ]; then
    "$probe" layout "$image" "$ptx" >"$dir/this" ||
        { echo "FAIL: layouts of PTX and shared object differ"
          cat "$dir/this"; failed=1; }
fi

answers "devices" DCPSIM_DEVICES=4 CUDA_VISIBLE_DEVICES=2,0 \
    DCPSIM_MEM_BYTES=1G DCPSIM_GRANULARITY=2M -- "$probe" devices <<'END'
init 0
device 0 is 2 bytes 1073741824 grain 2097152
device 1 is 0 bytes 1073741824 grain 2097152
END
answers "no device" CUDA_VISIBLE_DEVICES= -- "$probe" devices <<'END'
init 100
END
answers "device by name" DCPSIM_DEVICES=2 DCPSIM_MEM_BYTES=64k \
    CUDA_VISIBLE_DEVICES=GPU-dc513000-5a11-4d01-9c0d-51d000000001 -- \
    "$probe" devices <<'END'
init 0
device 0 is 1 bytes 65536 grain 65536
END
answers "failures on demand" DCPSIM_COUNT="$dir/count" \
    DCPSIM_FAIL=cuMemAlloc:3=2,cuStreamQuery:1=719,cuMemAllocAsync:1+=46,cuArrayDestroy:1=3 \
    -- "$probe" fail <<'END'
stream 0
alloc 0
alloc 0
alloc 2
alloc 0
async 46
async 46
query 719
unmodelled 3
END
sort "$dir/count" >"$dir/this"
cat >"$dir/wanted" <<'END'
cuArrayDestroy 1
cuCtxSetCurrent 1
cuDeviceGet 1
cuDevicePrimaryCtxRetain 1
cuInit 1
cuMemAllocAsync 2
cuMemAlloc_v2 4
cuStreamCreate 1
cuStreamQuery 1
END
same "counts" "$dir/wanted"
answers "fork" -- "$probe" fork <<'END'
child 51
parent 0
END
answers "lost context" -- "$probe" lost <<'END'
destroy 0
alloc 709
synchronize 709
END
answers "leaks" DCPSIM_LEAKS=1 -- "$probe" leak <<'END'
dcpsim: live contexts 1 streams 1 events 1 modules 0 libraries 0 pools 0 frames 0 graphs 1 execs 1 user-objects 0 blocks 1 pool-blocks 1 managed 0 pinned 1 registered 0 reservations 1 mappings 0
END
DCPSIM_LOG=$dir/log "$probe" lost >/dev/null
sed 's/^[0-9]* //' "$dir/log" | head -n 2 >"$dir/this"
printf 'cuInit\ncuDeviceGet\n' >"$dir/wanted"
same "log" "$dir/wanted"
exit $failed

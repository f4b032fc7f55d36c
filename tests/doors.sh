#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the programs of tests/doors/ three times: as they are, with the spy
# preloaded (which has the doors and nothing else), and with the library. Each
# run has to print the same and nothing on standard error.
doors=${DCP_BUILD:-$PWD}/tests/doors
library=${DCP_LIB:-$PWD/.libs/libdcprel.so}
real=${DCP_PRELOAD:-$library}
spy=${real%"$library"}$doors/.libs/spy.so
relay=$doors/.libs/relay.so
export BACK_LIBRARY=$doors/.libs/libback.so
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0

# run NAME PRELOAD DRIVER COMMAND...: its output to $work/NAME
run() {
    local name=$1 preload=$2 driver=$3
    shift 3
    LD_PRELOAD=$preload LD_LIBRARY_PATH=$doors/$driver "$@" \
        >"$work/$name" 2>&1
    echo "status $?" >>"$work/$name"
}

# The outputs NAME... are those of the run without the library, and good.
judge() {
    local what=$1 name
    shift
    for name in plain "$@"; do
        if ! cmp -s "$work/plain" "$work/$name" ||
            [[ $(tail -n 1 "$work/$name") != "status 0" ]]; then
            echo "FAIL $what, $name:"
            cat "$work/$name"
            failed=1
            return
        fi
    done
    echo "ok   $what"
}

check() {
    local driver=$1
    shift
    run plain "" "$driver" "$@"
    run spy "$spy" "$driver" "$@"
    run library "$real" "$driver" "$@"
    judge "${*##*/}" spy library
}

check .libs "$doors/rows"
check .libs "$doors/direct"
check .libs "$doors/direct_ptds"
check .libs "$doors/lookup" "$doors/.libs/plugin.so"
check .libs "$doors/getproc"
check .libs "$doors/forks"
check .libs "$doors/nodevice"
check .libs "$doors/race"
check front/.libs "$doors/chain"
check folded/.libs "$doors/fold"
check none "$doors/idle"
check none /bin/ls /
check none /bin/sh -c 'echo a | cat; (echo b) & wait; exec env true'

# A program that cannot be preloaded.
echo 'int main(void) { return 0; }' >"$work/static.c"
if ${DCP_CC:-cc} -static -o "$work/static" "$work/static.c" 2>/dev/null; then
    check none "$work/static"
fi

# Another preloaded library, before and behind. (It stands in for malloc, which
# the sanitizers do, too.)
if [[ -z ${DCP_SANITIZERS:-} ]]; then
    run plain "$relay" .libs "$doors/next"
    run spy "$relay $spy" .libs "$doors/next"
    run library "$relay $real" .libs "$doors/next"
    judge "next, behind another" spy library
    run plain "$spy $relay" .libs "$doors/next"
    run library "$real $relay" .libs "$doors/next"
    judge "next, before another" library
fi
exit $failed

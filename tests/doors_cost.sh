#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a hook costs, in instructions: the difference between many and more
# calls, with the spy and without.
doors=${DCP_BUILD:-$PWD}/tests/doors
[[ -z ${DCP_SANITIZERS:-} ]] || exit 77
command -v valgrind >/dev/null || exit 77

# PRELOAD MODE CALLS: instructions of the whole run
count() {
    LD_PRELOAD=$1 LD_LIBRARY_PATH=$doors/.libs valgrind --tool=callgrind \
        --callgrind-out-file=/dev/null "$doors/cost" "$2" "$3" 2>&1 |
        awk '/Collected/ { n = $4 } END { print n + 0; exit !n }'
}

# PRELOAD MODE: instructions a call
each() {
    local few many
    few=$(count "$1" "$2" 1000) && many=$(count "$1" "$2" 3000) || return
    echo $(((many - few) / 2000))
}

failed=0
# MODE INSTRUCTIONS WHAT
limit() {
    local plain hooked
    plain=$(each "" "$1") && hooked=$(each "$doors/.libs/spy.so" "$1") || {
        echo "$doors/cost cannot be counted" >&2
        exit 99
    }
    printf '%-42s %4d instructions (at most %d)\n' "$3" $((hooked - plain)) "$2"
    ((hooked - plain <= $2)) || failed=1
}

limit idle 12 "a launch that nobody listens to"
limit watched 120 "a launch that a sink watches"
limit lookup 150 "dlsym of a name that is not the driver's"
exit $failed

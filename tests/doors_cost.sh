#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a hook costs, in instructions: the difference between many and more
# calls, with the spy and without.
doors=${DCP_BUILD:-$PWD}/tests/doors
[[ -z ${DCP_SANITIZERS:-} ]] || exit 77
command -v valgrind >/dev/null || exit 77

count() { # PRELOAD MODE CALLS
    LD_PRELOAD=$1 LD_LIBRARY_PATH=$doors/.libs valgrind --tool=callgrind \
        --callgrind-out-file=/dev/null "$doors/cost" "$2" "$3" 2>&1 |
        awk '/Collected/ { print $4 }'
}

each() { # PRELOAD MODE
    echo $((($(count "$1" "$2" 3000) - $(count "$1" "$2" 1000)) / 2000))
}

failed=0
limit() { # MODE INSTRUCTIONS WHAT
    local cost=$(($(each "$doors/.libs/spy.so" "$1") - $(each "" "$1")))
    printf '%-40s %4d instructions (at most %d)\n' "$3" "$cost" "$2"
    ((cost <= $2)) || failed=1
}

limit idle 12 "a launch that nobody listens to"
limit watched 120 "a launch that a sink watches"
limit lookup 150 "dlsym of a name that is not the driver's"
exit $failed

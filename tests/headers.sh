#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each header compiles alone and has the guard that its path asks for.
cd "${DCP_SOURCE:-.}" || exit 99
build=${DCP_BUILD:-$PWD}
failed=0

for header in {src,intercept,capture,passes,replay}/*.h; do
    guard=DCP_${header//[\/.]/_}
    guard=${guard^^}
    # a file that is included several times over says so by having no guard
    if grep -q '^#ifndef DCP_' "$header" &&
        ! grep -q "^#ifndef $guard\$" "$header"; then
        echo "$header: the guard is not $guard" >&2
        failed=1
    fi
    grep -q '^#ifndef DCP_' "$header" || continue
    # shellcheck disable=SC2086
    if ! printf '#include "config.h"\n#include "%s"\n' "$header" |
        ${DCP_CC:-cc} -std=gnu11 -Wall -Wextra -Werror -fsyntax-only \
            -I"$build" -I. ${DCP_CPPFLAGS:-} -x c -; then
        echo "$header does not compile alone" >&2
        failed=1
    fi
done
exit $failed

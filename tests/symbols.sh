#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What libdcprel.so exports is what hook.def says, and dlsym and dlvsym; what
# it wants from others is in libc.
lib=${DCP_LIB:?}
[[ -z ${DCP_SANITIZERS:-} ]] || exit 77
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT

sed -nE 's/^ROW\((WATCH|OWN|DOOR), *[A-Z]+, *([A-Za-z0-9_]+),.*/\2/p' \
    "${DCP_SOURCE:-.}/intercept/hook.def" >"$work/rows"
printf 'dlsym\ndlvsym\n' >>"$work/rows"
nm -D --defined-only "$lib" | awk '{print $3}' | sed 's/@.*//' >"$work/exports"
LC_ALL=C sort -u -o "$work/rows" "$work/rows"
LC_ALL=C sort -u -o "$work/exports" "$work/exports"
[[ $(wc -l <"$work/rows") -gt 100 ]] || { echo "no rows found" >&2; exit 99; }
diff "$work/rows" "$work/exports" >"$work/diff" || {
    echo "rows (<) and exports (>) differ:"
    cat "$work/diff"
    exit 1
} >&2
# unversioned: not from libc; weak ones are the C start-up's hooks
if nm -D --undefined-only "$lib" | grep -v ' w ' | grep -v '@GLIBC'; then
    echo "wanted, but not in libc" >&2
    exit 1
fi

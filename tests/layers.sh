#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Includes point one way: src <- intercept <- capture, src <- passes, and
# replay includes all; src and passes know no CUDA header, only
# intercept/hook_cuda.h includes cuda.h, only src/table.h includes uthash.h,
# only src/json.h includes jansson.h. Libraries are opened, never linked.
# What is loaded into the program neither exits nor aborts.
cd "${DCP_SOURCE:-.}" || exit 99
failed=0

complain() {
    echo "$1" >&2
    failed=1
}

# folder, then the folders that it may include from
may_include() {
    local folder=$1 allowed=" $* " line file header
    while IFS= read -r line; do
        file=${line%%:*}
        header=${line#*\"}
        header=${header%\"*}
        case $header in
        */*) ;;
        config.h) continue ;;
        *) complain "$file: \"$header\" is not spelled folder/file.h" ;;
        esac
        [[ $allowed == *" ${header%%/*} "* ]] ||
            complain "$file: $folder must not include \"$header\""
    done < <(grep -H '^#include "' "$folder"/*.[ch])
}

may_include src
may_include intercept src
may_include capture intercept src
may_include passes src
may_include replay passes capture intercept src

# header, then the files that may include it
only_in() {
    local header=$1 file
    shift
    while IFS= read -r file; do
        [[ " $* " == *" $file "* ]] ||
            complain "$file: <$header> is for $* only"
    done < <(grep -l "^#include <$header>" {src,intercept,capture,passes,replay}/*)
}

only_in cuda.h intercept/hook_cuda.h
only_in cudaProfiler.h intercept/hook_cuda.h
only_in uthash.h src/table.h
only_in jansson.h src/json.h
only_in libunwind.h src/stack.c

for file in {src,intercept,capture,passes,replay}/*.[ch]; do
    case $file in
    src/report* | passes/opt_main.c) continue ;;
    esac
    if grep -nE '(^|[^_[:alnum:]])(exit|abort|printf|puts|perror)[[:blank:]]*\(' "$file"; then
        complain "$file: that has no place inside the program"
    fi
    first=$(head -n 1 "$file")
    [[ $first == '/* SPDX-License-Identifier: Apache-2.0 */' ]] ||
        complain "$file: the first line is not the license"
done

# the linked library needs libc alone (a sanitizer brings its own)
if [[ -n ${DCP_LIB:-} && -z ${DCP_SANITIZERS:-} ]]; then
    needed=$(readelf -d "$DCP_LIB" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    [[ $needed == libc.so.6 ]] ||
        complain "libdcprel.so needs more than libc: $needed"
fi
exit $failed

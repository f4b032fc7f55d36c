#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Traces of real runs on the simulated driver: what the report can say of one,
# of one that was killed, and of one that was only watched; and that nobody is
# watched who did not ask for it.
cd "${DCP_SOURCE:-.}" || exit 99
build=${DCP_BUILD:-.}
report=$build/dcprel-report
program=$build/tests/programs/transformer
preload=${DCP_PRELOAD:-$build/.libs/libdcprel.so}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0
export LD_LIBRARY_PATH=${DCP_SIM:-$build/tests/sim/.libs}
unset DC_CONFIG DCPREL_TRACE DCPREL_LOG

complain() {
    echo "FAIL: $1" >&2
    failed=1
}

# has FILE TEXT, lacks FILE TEXT: fixed strings
has() {
    grep -qF -- "$2" "$1" || {
        complain "\"$2\" is not in $(basename "$1"):"
        head -n 40 "$1" | sed 's/^/    /' >&2
    }
}
lacks() {
    if grep -qF -- "$2" "$1"; then
        complain "\"$2\" is in $(basename "$1")"
        grep -nF -- "$2" "$1" | head -n 5 | sed 's/^/    /' >&2
    fi
}

# ThreadSanitizer does not live with call stacks: none are taken.
stacked() {
    [[ ${DCP_SANITIZERS:-} == *thread* ]] ||
        lacks "$1" '(no call stack was taken)'
}

# configure KEYS: a configuration with these keys of section dcprel
configure() {
    printf '{"dcprel": {"trace_dir": "%s"%s}}\n' "$work/trace" \
        "${1:+, $1}" >"$work/config.json"
    rm -rf "$work/trace"
}

# trained OPTIONS...: runs the program with the configuration
trained() {
    DC_CONFIG=$work/config.json LD_PRELOAD=$preload \
        "$program" "$@" >"$work/out" 2>"$work/err" ||
        complain "the program ended with status $?"
}

# show VIEW [FORMAT]: writes $work/VIEW.FORMAT
show() {
    "$report" "$1" --format "${2:-text}" "$work/trace" \
        >"$work/$1.${2:-text}" 2>"$work/err" ||
        complain "$1 as ${2:-text}: $(cat "$work/err")"
}

# The number in the line of the summary that begins with $1.
fact() {
    sed -n "s/^ *$1  *\([0-9.]*\).*/\1/p" "$work/summary.text" | head -n 1
}

# --- a whole run, with call stacks ---

configure '"trace_stacks": true, "memory_budget": "64MiB", "log": "info"'
trained --steps 30
for view in summary memory ops ir; do
    show "$view"
    show "$view" json
    show "$view" csv
    show "$view" html
done
show summary perfetto
if command -v python3 >/dev/null; then
    for file in "$work"/*.json "$work"/*.perfetto; do
        [[ $file == */config.json ]] || python3 -m json.tool "$file" \
            >/dev/null || complain "$(basename "$file") is no JSON"
    done
fi
summary=$work/summary.text memory=$work/memory.text
has "$summary" 'dcprel simulated GPU'
has "$summary" 'memory budget                        64.0 MiB'
has "$summary" 'configuration                        from DC_CONFIG'
has "$summary" 'trace                                whole'
has "$summary" 'the iteration was found' # a line of the log
lacks "$summary" 'watching only'
[[ $(fact 'followed (replayed)') -ge 20 ]] || complain "hardly any followed"
lacks "$memory" 'not known'
stacked "$memory"
for role in parameters 'optimizer states' activations workspaces inputs; do
    has "$memory" "$role"
done
has "$work/ops.text" 'matmul'
grep -q 'different kernels launched  *[1-9]' "$work/ops.text" ||
    complain "no kernels are known"
has "$work/ir.text" 'What place changed'
lacks "$work/summary.html" '<script src'

# --- the same without call stacks: roles are known all the same, but for the
# --- iterations just before the first graph

configure ''
trained --steps 30
show memory
lacks "$memory" 'not known'
has "$memory" 'G grad'

# --- a peak that is reached while following: planned blocks have stacks ---

configure '"trace_stacks": true'
program=$build/tests/programs/dynamic trained
show memory
has "$memory" 'while following graph'
stacked "$memory"
lacks "$memory" 'not known'

# --- killed while following ---

configure ''
DC_CONFIG=$work/config.json LD_PRELOAD=$preload \
    "$program" --steps 1000000 >"$work/out" 2>"$work/err" &
pid=$!
for _ in $(seq 200); do
    sleep 0.1
    [[ $(grep -c '^step' "$work/out") -ge 40 ]] && break
done
kill -9 $pid
wait $pid 2>/dev/null
show summary
show memory
has "$summary" 'cut off: the program was killed'
# Under a sanitizer, on a busy machine, calls can be milliseconds apart: what is
# held back is then issued before its graph is whole.
[[ -n ${DCP_SANITIZERS:-} || $(fact 'followed (replayed)') -ge 20 ]] ||
    complain "killed: few followed"
has "$memory" 'optimizer states'

# --- configured, but off ---

configure '"enabled": false'
trained --steps 5
show summary
has "$summary" 'from DC_CONFIG (watching only)'
[[ $(fact iterations) == 0 ]] || complain "iterations though it is off"

# --- watched: allocations and totals, and the program is left as it is ---

"$program" --steps 20 >"$work/plain" 2>&1
rm -rf "$work/trace"
DCPREL_TRACE=$work/trace LD_PRELOAD=$preload \
    "$program" --steps 20 >"$work/out" 2>&1
cmp -s "$work/plain" "$work/out" || complain "watched: the output differs"
show summary
show memory
show ops
has "$summary" 'none (watching only)'
has "$summary" 'trace                                whole'
has "$summary" 'dcprel simulated GPU'
peak=$(sed -n 's/^ *peak  *\([0-9.]*\) .*/\1/p' "$memory" | head -n 1)
[[ ${peak%.*} -gt 100 ]] || complain "watched: a peak of $peak"
grep -q 'blocks allocated in all  *[1-9][0-9][0-9]' "$memory" ||
    complain "watched: few blocks"
for symbol in cuLaunchKernel cuMemAllocAsync cuMemFreeAsync; do
    grep -q "^ *[1-9][0-9][0-9].*$symbol" "$work/ops.text" ||
        complain "watched: hardly any call of $symbol"
done

# --- not asked for: no file, no output, no thread ---

# What a running program has: threads, and open files but its output.
has_now() {
    find "/proc/$1/task" -mindepth 1 -maxdepth 1 | wc -l
    find "/proc/$1/fd" -type l -printf '%l\n' |
        grep -v '^pipe:\|out$\|err$' | sort
}
program=$(cd "$(dirname "$program")" && pwd)/transformer
mkdir "$work/here"
(cd "$work/here" && exec "$program" --steps 1000000 >"$work/out" \
    2>"$work/plain.err") &
plain=$!
(cd "$work/here" && LD_PRELOAD=$preload exec "$program" --steps 1000000 \
    >"$work/this.out" 2>"$work/err") &
this=$!
for _ in $(seq 200); do
    sleep 0.1
    [[ $(grep -c '^step' "$work/out") -ge 20 &&
        $(grep -c '^step' "$work/this.out") -ge 20 ]] && break
done
[[ $(has_now $plain) == "$(has_now $this)" ]] || {
    complain "not asked for, and yet it has something of its own:"
    diff <(has_now $plain) <(has_now $this) >&2
}
kill -9 $plain $this
wait $plain $this 2>/dev/null
[[ -s $work/err ]] && complain "not asked for, and yet: $(head -n 1 "$work/err")"
[[ -z $(ls -A "$work/here") ]] || complain "not asked for: files were made"

[[ $failed == 0 ]] && echo "traces say what they should"
exit $failed

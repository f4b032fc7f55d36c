#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# dcprel-report config: exit status, what it prints; and that the documents say
# what the rows say.
cd "${DCP_SOURCE:-.}" || exit 99
report=${DCP_BUILD:-.}/dcprel-report
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0

complain() {
    echo "$1" >&2
    failed=1
}

# status, text of the file, then what must be in the output (or the error)
try() {
    local want=$1 got
    printf '%s' "$2" >"$work/file.json"
    "$report" config "$work/file.json" >"$work/out" 2>"$work/err"
    got=$?
    [[ $got == "$want" ]] || complain "exit status $got, not $want: $2"
    if [[ $want == 0 ]]; then
        [[ -s $work/err ]] && complain "errors for $2"
        grep -qF -- "$3" "$work/out" || complain "\"$3\" is not printed for $2"
    else
        [[ -s $work/out ]] && complain "output for $2"
        grep -qF -- "$3" "$work/err" || complain "\"$3\" is no error of $2"
        [[ $(wc -l <"$work/err") == 1 ]] || complain "not one line for $2"
    fi
}

try 0 '{"dcprel": {"warmup": 4}}' 'acts: iterations that are recorded'
try 0 '{"dcprel": {"warmup": 4}}' 'good; 1 keys, of which 1 act'
try 0 '{"bf16": {"enabled": true}}' 'accepted without effect: '
try 0 '{"bf16": {"enabled": "auto"}}' 'not set: '
try 0 '{"zero_optimization": {"stage": 2}}' 'without effect in this version: '
try 0 '{"optimizer": {"params": {"lr": 0.1}}}' 'optimizer.params.lr = 0.1'
try 2 '{"dcprel": {"wamup": 4}}' \
    'file.json:1: dcprel.wamup: unknown key; did you mean dcprel.warmup?'
try 2 $'{\n"dcprel": {\n"warmup": 0}}' \
    'file.json:3: dcprel.warmup: out of range: 0 is not between 2 and 1000'
try 2 '' 'file.json: the configuration is empty'
try 2 '{' 'file.json:1: malformed JSON: '
for arguments in "" "$work" "$work/missing" "--what" "a b"; do
    # shellcheck disable=SC2086
    "$report" config $arguments >/dev/null 2>&1
    [[ $? == 2 ]] || complain "config $arguments: exit status is not 2"
done

# the schema: JSON, with each key's own part
"$report" config --schema >"$work/schema" || complain "no schema"
"$report" config --keys >"$work/keys" || complain "no keys"
if command -v python3 >/dev/null; then
    python3 - "$work/schema" "$work/keys" <<'END' || complain "schema is wrong"
import json, re, sys
schema = json.load(open(sys.argv[1]))
for line in open(sys.argv[2]):
    found = re.match(r"\| `([^`]+)` \|", line)
    if not found:
        continue
    at = schema
    for part in found[1].split("."):
        if part == "*":
            assert at["additionalProperties"] is True, found[1]
        else:
            at = at["properties"][part]
END
fi

# UPDATE=1 writes the rows of today into README.md
if [[ -n ${UPDATE:-} ]]; then
    awk -v keys="$work/keys" '
        /^\| `dcprel\./ {
            if (!done)
                while ((getline line < keys) > 0)
                    if (line ~ /^\| `dcprel\./)
                        print line
            done = 1
            next
        }
        { print }' README.md >"$work/README.md" &&
        cat "$work/README.md" >README.md
fi

# README.md: the section of our own, word for word; the manual: every variable
grep '^| `dcprel\.' "$work/keys" >"$work/ours"
grep '^| `dcprel\.' README.md | diff - "$work/ours" >"$work/diff" || {
    complain "README.md (<) and the rows (>) differ:"
    cat "$work/diff" >&2
}
"$report" config --env | sed -n 's/^\([A-Z_]*\)=.*/\1/p' >"$work/env"
while IFS= read -r name; do
    grep -q "$name" man/dcprel.7 || complain "man/dcprel.7 lacks $name"
done <"$work/env"
grep -rhoE 'getenv\("[A-Z_]+"\)' src intercept capture passes replay |
    sed 's/.*"\(.*\)".*/\1/' | sort -u |
    while IFS= read -r name; do
        grep -qx "$name" "$work/env" || echo "$name"
    done >"$work/unknown"
[[ -s $work/unknown ]] &&
    complain "read, but not in env.def: $(tr '\n' ' ' <"$work/unknown")"
exit $failed

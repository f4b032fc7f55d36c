#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The runs on a real GPU: every figure of RESULTS.md comes from here.
#
#   run.sh [equal] [speed] [memory] [software] [verify] ...
#
# Needs python3 with PyTorch and transformers. LIB, REPORT and PROGRAMS name
# libdcprel.so, dcprel-report and the folder of training programs; OUT, a
# folder for what is kept.
set -u
here=$(cd "$(dirname "$0")" && pwd)
LIB=${LIB:?the path of libdcprel.so}
REPORT=${REPORT:-}
PROGRAMS=${PROGRAMS:?the folder of the training programs}
OUT=${OUT:-$(mktemp -d)}
SHOW=${SHOW:-}

compare() { # name, runs, modes, config, command...
    local name=$1 runs=$2 modes=$3 config=$4
    shift 4
    python3 "$here/compare.py" --lib "$LIB" --report "$REPORT" --runs "$runs" \
        --modes "$modes" --config "$config" --json "$OUT/runs.json" $SHOW \
        "$name" -- python3 "$@"
}

llama() { # name, options...
    local name=$1
    shift
    compare "llama $name" "${RUNS:-1}" "${MODES:-plain,replay}" \
        "${CONFIG:-{\}}" "$PROGRAMS/train_llama.py" "$@"
}

big="--layers 16 --hidden 2048 --batch 1 --seq 512"
huge="--layers 16 --hidden 2048 --batch 8 --seq 1024"

equal() {
    llama default
    llama accum-clip --accum 4 --clip 1 --opt fused
    llama autocast-checkpoint --dtype autocast --opt fused --checkpoint
    llama 16x2048 $big --opt fused
    llama sgd-fp32 --opt sgd --dtype fp32
    compare resnet 1 "${MODES:-plain,replay}" '{}' "$PROGRAMS/train_resnet.py"
    compare varlen 1 "${MODES:-plain,replay}" '{}' "$PROGRAMS/train_varlen.py"
}

speed() {
    local RUNS=${RUNS:-5} MODES=plain,replay,watch
    llama 16x2048-fused $big --opt fused
    llama 16x2048-foreach $big --opt foreach
    llama 4x512-foreach
    llama 4x512-fused --opt fused
    llama 16x2048-8x1024 $huge --opt fused
}

memory() {
    CONFIG='{"dcprel": {"memory_budget": "'"${BUDGET:-5400MiB}"'"}}' \
        llama 16x2048-budget $big --opt fused --steps 4
}

# Real software, preloaded without and with a configuration.
software() {
    local name
    for name in ${SOFTWARE:-compiled owngraph loader events cupy jax nccl forks}
    do
        compare "software $name" 1 plain,watch,replay '{}' \
            "$here/software.py" "$name"
    done
    if [ -n "${CUDART_PROGRAM:-}" ]; then
        python3 "$here/compare.py" --lib "$LIB" --report "$REPORT" \
            --modes plain,watch,replay --json "$OUT/runs.json" \
            "software static-cudart" -- "$CUDART_PROGRAM"
    fi
}

verify() {
    CONFIG='{"dcprel": {"verify": 1}}' llama default-verify
}

[ $# -gt 0 ] || set -- equal speed memory software
for part in "$@"; do
    "$part"
done

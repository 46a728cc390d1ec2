#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Weak scaling on this machine: N processes of one thread, each with a batch of its own, against one process
# of one thread, in interleaved rounds. Prints images/s, the efficiency (N processes over N times one) and
# the share of a step that is communication. Wants a machine that does nothing else.
#
#   tests/bench/weak_scaling.sh BUILD_DIR [RECIPE [BATCH [PROCESSES [ROUNDS [OPTION...]]]]]
#
# An OPTION goes to both, e.g. --precision bf16 or --set comm.sync_bn=true.
set -eu
build=$(cd "${1:?BUILD_DIR}" && pwd)
recipe=${2:-hrnet_w32_coco_256x192}
batch=${3:-8}
processes=${4:-2}
rounds=${5:-3}
[ $# -lt 5 ] && shift $# || shift 5
source=$(cd "$(dirname "$0")/../.." && pwd)
export STANCE_RECIPE_PATH="${STANCE_RECIPE_PATH:-$source/recipes}"
for kind in backbones heads losses scalers plugins/devices plugins/ops plugins/optimizers plugins/schedules plugins/datasets \
    plugins/tasks plugins/loggers plugins/comms; do
    STANCE_PLUGIN_PATH=${STANCE_PLUGIN_PATH:+$STANCE_PLUGIN_PATH:}$build/$kind
done
export STANCE_PLUGIN_PATH

bench() { "$build/stance" bench "$recipe" --threads 1 --batch-size "$batch" --steps 5 --warmup 2 --json "$@"; }
# The number under a key of one JSON object on standard input.
number() { tr ',{' '\n\n' | sed -n "s/^ *\"$1\": *\([-0-9.e]*\).*/\1/p" | head -n 1; }

round=0
while [ $round -lt "$rounds" ]; do
    one=$(bench "$@" | number images_per_second)
    bench --nproc "$processes" "$@" > /tmp/weak_scaling.$$
    many=$(number images_per_second < /tmp/weak_scaling.$$)
    share=$(number share_not_hidden < /tmp/weak_scaling.$$)
    rm -f /tmp/weak_scaling.$$
    awk -v one="$one" -v many="$many" -v n="$processes" -v share="$share" -v recipe="$recipe" -v batch="$batch" 'BEGIN {
        printf "%s, batch %d: 1 process %.3f images/s, %d processes %.3f, efficiency %.3f, communication %.1f %% of a step\n",
               recipe, batch, one, n, n * many, many / one, 100 * share }'
    round=$((round + 1))
done

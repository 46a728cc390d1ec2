#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A longer form of test_train's kill test: kills a training run 50 times (or $1) at random moments, lets it
# end, and compares its last checkpoint byte for byte with that of a run left alone. Not part of
# `make check`: run it in the build folder, with the environment that make gives tests (STANCE_PLUGIN_PATH).
# STANCE_PROGRAM is the program (./stance), $2 more arguments, e.g. "--precision fp16 --accumulate 4".
set -u
kills_wanted=${1:-50}
more=${2:-}
stance=$(realpath "${STANCE_PROGRAM:-./stance}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
cat > r.yaml <<'R'
model:
  task: top_down
  backbone: {name: resnet, depth: 18, stem_channels: 8, base_channels: 8}
  head: {name: heatmap, deconv: [16]}
  loss: {name: joints_mse, use_target_weight: true}
data: {dataset: synthetic, input_size: [64, 64], heatmap_size: [4, 4], sigma: 1, train: {samples: 22}, val: {samples: 6}}
train:
  epochs: 60
  batch_size: 4
  workers: 1
  eval_interval: 20
  checkpoint: {epochs: null, steps: 1, keep: 2}
  optimizer: {name: adam, lr: 5.0e-4}
threads: 1
R
run="train r.yaml --quiet $more"
milliseconds() { echo $(($(date +%s%N) / 1000000)); }

begin=$(milliseconds)
"$stance" $run --work-dir one --max-steps 1 || exit 1
first=$(($(milliseconds) - begin))
begin=$(milliseconds)
"$stance" $run --work-dir whole || exit 1
whole=$(($(milliseconds) - begin))
later=$((whole > first ? (whole - first) / kills_wanted : 0))

same() {
    last=$(basename "$(cat whole/last_checkpoint)")
    cmp "whole/$last" "killed/$last" || exit 1
}

kills=0
starts=0
while :; do
    starts=$((starts + 1))
    if [ $starts -gt $((20 * kills_wanted)) ]; then
        echo "kill test: no end after $starts starts" >&2
        exit 1
    fi
    "$stance" $run --work-dir killed --resume 2> err &
    child=$!
    if [ $kills -lt "$kills_wanted" ]; then
        # From within the start to a share of the steps further on.
        ms=$((first / 2 + RANDOM * (first / 2 + 2 * later + 1) / 32768))
        sleep "$(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))"
        kill -KILL $child 2> /dev/null
    fi
    wait $child 2> /dev/null
    status=$?
    case $status in
    0)
        same
        [ $kills -ge "$kills_wanted" ] && break
        rm -rf killed # it was quicker than the kills: another round
        ;;
    137) kills=$((kills + 1)) ;;
    *)
        cat err >&2
        echo "kill test: exit status $status" >&2
        exit 1
        ;;
    esac
done
echo "kill test: $kills kills, $starts starts, $last is the same"

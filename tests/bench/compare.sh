#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Speed and memory of a training step against PyTorch, in interleaved rounds.
#
#   tests/bench/compare.sh BUILD_DIR PYTHON [NET PRECISION BATCH [ROUNDS]]
#
# PYTHON is an interpreter with torch (a venv outside the tree: python3 -m venv V && V/bin/pip install torch).
# Each round runs PyTorch as installed, PyTorch with a tuned allocator (huge pages, nothing given back), and
# stance; the ratios of the medians of a round are printed, and their median over the rounds. Let nothing
# else compute meanwhile.
set -eu
build=$1 python=$2 net=${3:-hrnet_w32} precision=${4:-fp32} batch=${5:-16} rounds=${6:-3}
here=$(cd "$(dirname "$0")" && pwd)
threads=$(nproc)
plugins=
for d in backbones heads losses scalers plugins/devices plugins/ops plugins/optimizers plugins/schedules \
	plugins/datasets plugins/tasks plugins/loggers; do
	plugins=$plugins:$build/$d
done
export STANCE_PLUGIN_PATH="$plugins" STANCE_RECIPE_PATH="$here/../../recipes" OMP_NUM_THREADS="$threads"
case $net in
hrnet_w32) recipe=hrnet_w32_coco_256x192 ;;
hrnet_w48) recipe=hrnet_w48_coco_256x192 ;;
resnet*) recipe=res${net#resnet}_coco_256x192 ;;
*) echo "compare.sh: no recipe for $net" >&2; exit 2 ;;
esac
tuned=glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=8589934592:glibc.malloc.trim_threshold=17179869184
out=$(mktemp)
trap 'rm -f "$out"' EXIT
peer=$precision
[ "$precision" = fp16 ] && peer=fp32 # PyTorch's own fp16 on the CPU is a reference path; its fp32 is the bar
i=0
while [ $i -lt "$rounds" ]; do
	a=$("$python" "$here/torch_step.py" "$net" "$peer" "$batch" --steps 5 --warmup 2)
	b=$(GLIBC_TUNABLES=$tuned "$python" "$here/torch_step.py" "$net" "$peer" "$batch" --steps 5 --warmup 2)
	c=$("$build/stance" bench "$recipe" --precision "$precision" --batch-size "$batch" --steps 5 --warmup 2 --json)
	printf '%s\n%s\n%s\n' "$a" "$b" "$c" >>"$out"
	i=$((i + 1))
done
"$python" - "$out" "$net $precision batch $batch (PyTorch $peer)" <<'P'
import json, statistics, sys
lines = [json.loads(x) for x in open(sys.argv[1])]
print(sys.argv[2])
speed, tuned, memory = [], [], []
for a, b, c in zip(lines[0::3], lines[1::3], lines[2::3]):
    own = statistics.median(c["step_ms"])
    speed.append(a["median_ms"] / own)
    tuned.append(b["median_ms"] / own)
    memory.append(c["peak_rss_bytes"] / a["peak_rss_bytes"])
    print(f"  PyTorch {a['median_ms']:.0f} ms, tuned {b['median_ms']:.0f} ms, stance {own:.0f} ms:"
          f" {speed[-1]:.2f}x, {tuned[-1]:.2f}x; memory {a['peak_rss_bytes'] / 2**30:.2f} GiB, "
          f"{c['peak_rss_bytes'] / 2**30:.2f} GiB: {memory[-1]:.2f}x")
print(f"  median: {statistics.median(speed):.2f}x PyTorch {lines[0]['torch']}, {statistics.median(tuned):.2f}x tuned,"
      f" memory {statistics.median(memory):.2f}x")
P

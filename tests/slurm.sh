#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `srun -n 2 stance train` in a Slurm of one machine, which is started here (munged, slurmctld, slurmd) in a
# folder of its own and ended with it. Skipped, with the reason, where it cannot be started: the daemons want
# root and ports of their own. Run by `make check`; by hand in the build folder with its environment.
set -u
skip() {
    echo "SKIPPED: Slurm: $1"
    exit 77
}
export PATH=$PATH:/usr/sbin:/sbin
stance=$(realpath "${STANCE_PROGRAM:-./stance}")
for program in munged slurmctld slurmd srun sinfo; do
    command -v $program > /dev/null 2>&1 || skip "$program is not installed"
done
"$stance" inspect --exists comm/mpi > /dev/null 2>&1 || skip "comm 'mpi' is not built"
[ "$(id -u)" -eq 0 ] || skip "only root can start it"

folder=$(mktemp -d /tmp/stance-slurm-XXXXXX) # a short name: sockets lie in it
pids=
clean() {
    [ -z "$pids" ] || kill $pids 2> /dev/null
    for i in 1 2 3 4 5 6 7 8 9 10; do
        [ -n "$(jobs -rp)" ] || break
        sleep 0.2
    done
    [ -z "$pids" ] || kill -KILL $pids 2> /dev/null
    wait 2> /dev/null
    rm -rf "$folder"
}
trap clean EXIT
cd "$folder" || exit 1
chmod 755 .
mkdir state spool
host=$(hostname)
port=$((20000 + ($$ * 7) % 20000))
dd if=/dev/urandom of=munge.key bs=64 count=4 2> /dev/null
chmod 600 munge.key
cat > slurm.conf << C
ClusterName=stance
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CryptoType=crypto/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/linear
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=30
KillWait=5
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
C
export SLURM_CONF=$folder/slurm.conf
munged --foreground --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
    --log-file="$folder/munged.log" --seed-file="$folder/munged.seed" > munged.out 2>&1 &
pids="$pids $!"
for i in $(seq 50); do
    [ -S munge.socket ] && break
    sleep 0.1
done
[ -S munge.socket ] || skip "munged does not start: $(tail -n 1 munged.out munged.log 2> /dev/null | tr '\n' ' ')"
slurmctld -D -f "$SLURM_CONF" > slurmctld.out 2>&1 &
pids="$pids $!"
slurmd -D -f "$SLURM_CONF" > slurmd.out 2>&1 &
pids="$pids $!"
for i in $(seq 100); do
    state=$(timeout 5 sinfo -h -o %t 2> /dev/null)
    case $state in
    idle* | mix* | alloc*) break ;;
    esac
    sleep 0.2
done
case $state in
idle | mix | alloc) ;;
*) skip "the node does not come up: $(grep -h -i -E 'error|fatal' slurmctld.out slurmd.out slurmctld.log slurmd.log 2> /dev/null | tail -n 2 | tr '\n' ' ')" ;;
esac
pmi=$(timeout 10 srun --mpi=list 2>&1 | tr ' \t' '\n\n' | grep -x -E 'pmix(_v[0-9]+)?' | head -n 1)
[ -n "$pmi" ] || skip "its srun has no PMIx"

cat > r.yaml << 'R'
model:
  task: top_down
  backbone: {name: resnet, depth: 18, stem_channels: 8, base_channels: 8}
  head: {name: heatmap, deconv: [16]}
  loss: {name: joints_mse, use_target_weight: true}
data: {dataset: synthetic, input_size: [64, 64], heatmap_size: [4, 4], sigma: 1, train: {samples: 22}, val: {samples: 6}}
train: {epochs: 1, batch_size: 4, workers: 0, eval_interval: 1, optimizer: {name: adam, lr: 5.0e-4}}
threads: 1
device: ref
R
fail() {
    echo "slurm: $1" >&2
    shift
    tail -n 20 "$@" >&2
    exit 1
}
timeout 120 srun --mpi="$pmi" --overcommit -n 2 "$stance" train r.yaml --quiet --work-dir two > out 2> err ||
    fail "srun -n 2 stance train ended with status $?" out err
[ "$(grep -c checkpoint: out)" -le 1 ] || fail "both ranks print" out
timeout 120 "$stance" train r.yaml --quiet --work-dir one --batch-size 8 > out1 2> err1 || fail "one process" out1 err1
# The mean loss of the epoch's first step is that of the same eight samples.
loss() { sed -n 's/.*"loss": *\([0-9.e-]*\).*/\1/p' $1/2*/scalars.jsonl | head -n 1; }
a=$(loss two) b=$(loss one)
awk -v a="$a" -v b="$b" 'BEGIN { d = a - b; exit !(b > 0 && d < 1e-4 * b && -d < 1e-4 * b) }' ||
    fail "loss $a with two processes, $b with one" out
# Without a launcher's PMI every task is alone, which must not become two runs over the same files.
timeout 120 srun --mpi=none --overcommit -n 2 "$stance" train r.yaml --quiet --work-dir none > out 2> err
status=$?
[ $status -eq 3 ] || fail "without PMI: status $status" out err
[ "$(grep -c '^stance: ' err)" -eq 1 ] || fail "without PMI: not one message" err
# A killed rank: either Slurm's PMIx ends the others, or they see it themselves.
timeout 120 srun --mpi="$pmi" --overcommit -n 2 "$stance" train r.yaml --quiet --work-dir killed --epochs 100000 > out 2> err &
job=$!
for i in $(seq 100); do
    [ -d killed ] && break
    sleep 0.1
done
sleep 0.5
for p in /proc/[0-9]*; do
    grep -q -z -x 'train' $p/cmdline 2> /dev/null && grep -q -z -x 'SLURM_PROCID=1' $p/environ 2> /dev/null &&
        grep -q -z -x "SLURM_CONF=$SLURM_CONF" $p/environ && kill -KILL "${p#/proc/}"
done
begin=$(date +%s)
wait $job
status=$?
spent=$(($(date +%s) - begin))
[ $status -ne 0 ] && [ $spent -lt 30 ] || fail "killed rank: status $status after $spent s" err
grep -q -E 'rank 1|task 1|pmix[0-9.]+:1' err || fail "killed rank: it is not named" err
echo "slurm: srun --mpi=$pmi -n 2 trains (loss $a, one process $b); --mpi=none is refused; a killed rank ends it in $spent s"

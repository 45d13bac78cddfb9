# shellcheck shell=bash disable=SC2034,SC2154,SC2317
# Cases of Slurm, a slurmd on each host; sourced by tests/cluster/inside.
export SLURM_CONF=$lab/slurm.conf
unset "${!SLURM_JOB@}" "${!SLURM_STEP@}"

slurm_begin() { # HOSTS
  begin "$1"
  dd if=/dev/urandom of="$lab/munge.key" bs=128 count=1 status=none
  chmod 600 "$lab/munge.key"
  cat >"$SLURM_CONF" <<CONF
ClusterName=lab
SlurmctldHost=node1
SlurmUser=root
AuthType=auth/munge
StateSaveLocation=$lab/state
SlurmdSpoolDir=/tmp/slurmd
SlurmctldLogFile=$lab/slurmctld.log
SlurmdLogFile=/tmp/slurmd.log
SlurmctldPidFile=/tmp/slurmctld.pid
SlurmdPidFile=/tmp/slurmd.pid
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
KillWait=5
MailProg=/bin/true
NodeName=node[1-$1] CPUs=2
PartitionName=all Nodes=ALL Default=YES
CONF
  mkdir "$lab/state"
  local i
  for ((i = 1; i <= $1; ++i)); do start_slurm "node$i" || return; done
  on node1 slurmctld
  await 300 "idle nodes" nodes_are "$1" idle || wrong "$(sinfo 2>&1; tail -n 5 "$lab/slurmctld.log")"
}
start_slurm() {
  on "$1" munged --force --key-file="$lab/munge.key" --log-file=/tmp/munged.log --pid-file=/tmp/munged.pid \
    --seed-file=/tmp/munged.seed &>"$lab/munged.$1" || wrong "munged: $(<"$lab/munged.$1")"
  on "$1" slurmd
}
nodes_are() { [ "$(on node1 sinfo -h -N -o %N -t "$2" | sort -u | wc -l)" = "$1" ]; }

case_slurm_hashes() {
  local start=by_srun
  slurm_begin 3
  compare_hashes 6
}
by_srun() {
  on node1 timeout -k 5 900 srun -n 6 --mpi=pmix "$lab/bin/rank" "$lab/bin/$1" "${@:2}" >"$lab/out" 2>"$lab/err" </dev/null
  code=$?
}

case_slurm_requeue() { # a node of two fails; the third takes its place, and the run goes on
  local job step
  slurm_begin 3
  mkdir "$lab/run" "$lab/threads"
  export HERO_TIMEOUT=10 HERO_PAUSE=400 HERO_RUN=$lab/run
  cp "$here/../../docs/guides/clusters/train.sbatch" "$lab/home"
  job=$(on node1 sbatch --parsable -D "$lab/home" "$lab/home/train.sbatch" "$lab/bin/hero_mpi_ranks" resume)
  await 300 "the first checkpoints" has_checkpoint || wrong "$(on node1 squeue)"
  sleep 2
  link node2 down
  SECONDS=0
  await 300 "another start" job_has Restarts=1 || wrong "$(on node1 scontrol show job "$job")"
  echo "$what: requeued after $SECONDS s"
  await 900 "the end of the job" job_ends || wrong "$(on node1 scontrol show job "$job")"
  cp "$lab/home/train.log" "$lab/out"
  echo "$what: ended after $SECONDS s"
  step=$(sed -n 's/^begins at step //p' "$lab/out" | tail -n 1)
  [ "${step:-0}" -gt 0 ] || wrong "did not go on from a checkpoint"
  HERO_PAUSE=0 HERO_RUN=$lab/threads threads "$lab/threads.out" hero_mpi_ranks resume --ranks 4
  cmp "$lab/run/model.safetensors" "$lab/threads/model.safetensors" || wrong "other bits"
}
job_ends() {
  # Slurm waits for two minutes before it starts a job anew
  on node1 scontrol update "JobId=$job" StartTime=now
  job_has JobState=COMPLETED
}
has_checkpoint() { [ -n "$(find "$lab/run" -path "*/step-*/trainer_state.json" 2>/dev/null)" ]; }
job_has() { on node1 scontrol show job "$job" | grep -qw "$1"; }

# shellcheck shell=bash disable=SC2034,SC2154,SC2317
# Cases of mpirun over ssh and TCP, two ranks a host; sourced by tests/cluster/inside.
flags=(--hostfile "$lab/home/hostfile" --bind-to none --mca mpi_yield_when_idle 1)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# mpi PROGRAM OPTION...: on all hosts, from node1; sets `code`
mpi() {
  local program=$1
  shift
  on node1 timeout -k 5 900 "$mpiexec" "${flags[@]}" "$lab/bin/rank" "$lab/bin/$program" "$@" \
    >"$lab/out" 2>"$lab/err" </dev/null
  code=$?
  echo "$code" >"$lab/code"
}
ends_well() { [ "$code" -eq 0 ] || wrong "exit code $code"; }
# left: what there still is of a job; a dead process that nobody has buried yet counts as gone
# shellcheck disable=SC2009 # pgrep does not tell the state
left() { ps -e -o stat=,comm= | grep -v '^Z' | grep -E " (mpirun|mpiexec|orterun|orted|ssh|hero_mpi_ranks|11_ddp|18_gpt_fsdp)$"; }
none_left() { [ -z "$(left)" ]; }

case_hashes() { # of every collective, and of every strategy after three steps
  local hosts ranks rank
  begin 3
  for hosts in 2 3; do
    ranks=$((2 * hosts))
    head -n "$hosts" "$here/../../docs/guides/clusters/hostfile" >"$lab/home/hostfile"
    compare_hashes "$ranks"
  done
}

# compare_hashes RANKS: threads against what the function `start` (mpi where there is none) does, but for the
# bytes that are sent: on several hosts sums go in two levels
compare_hashes() {
  local ranks=$1 rank
  mkdir "$lab/mpi.$ranks" "$lab/threads.$ranks"
  HERO_TEXTS=$lab/mpi.$ranks ${start:-mpi_with_texts} hero_mpi_ranks hashes --timeout 120
  ends_well
  HERO_TEXTS=$lab/threads.$ranks threads "$lab/threads.out" hero_mpi_ranks hashes --ranks "$ranks"
  for ((rank = 0; rank < ranks; ++rank)); do
    [ "$(wc -l <"$lab/threads.$ranks/$rank")" -gt 50 ] || wrong "too few lines"
  done
  sed -i '/  /d; s/ sent [0-9]*$//' "$lab/threads.$ranks"/* "$lab/mpi.$ranks"/*
  same "$lab/threads.$ranks" "$lab/mpi.$ranks"
}
mpi_with_texts() {
  local before=("${flags[@]}")
  flags+=(-x HERO_TEXTS)
  mpi "$@"
  flags=("${before[@]}")
}

case_tutorials() {
  local hosts
  begin 3
  for hosts in 2 3; do
    head -n "$hosts" "$here/../../docs/guides/clusters/hostfile" >"$lab/home/hostfile"
    compare_tutorial 11_ddp $((2 * hosts))
    compare_tutorial 18_gpt_fsdp $((2 * hosts))
  done
}

# compare_tutorial NAME RANKS: what threads print, which are on one host: their formulas of bytes are those of one
compare_tutorial() {
  local before=("${flags[@]}")
  flags+=(-x HERO_HOST=one)
  mpi "$1" --out "$lab/mpi" --timeout 120
  flags=("${before[@]}")
  ends_well
  threads "$lab/threads.out" "$1" --ranks "$2" --out "$lab/threads"
  same "$lab/threads.out" "$lab/out"
}

case_slow() { # 200 Mbit a second, and then 20 ms late, where the kernel has that
  begin 2
  limit node2 200mbit || wrong "no tc tbf in this kernel"
  compare_hashes 4
  case $(tc -s qdisc show dev node2) in *"overlimits 0"*) wrong "nothing was slowed down" ;; esac
  if on node2 tc qdisc replace dev eth0 root netem delay 20ms 5ms 2>/dev/null; then
    compare_tutorial 11_ddp 4
  else
    echo "$what: no tc netem in this kernel: delays are left out"
  fi
}

# train SECONDS OPTION...: 18_gpt_fsdp for ever, in the background, under way when this returns
train() {
  mpi 18_gpt_fsdp --steps 1000000 --out "$lab/run" --timeout "$1" &
  job=$!
  await 300 "the first step" pgrep -f "bin/18_gpt_fsdp"
  await 300 "the first lines" test -s "$lab/out"
  sleep 2
}

# named RANK...: each said by what call it was stopped, and for whom it waited
named() {
  local rank late="time-out after [0-9]+ s: (ranks? .* did not arrive|all ranks have come, but not all bytes from and to rank)"
  for rank in "$@"; do
    grep -qE "($late|rank $rank: stopped by SIGTERM in [a-z_]+ \(call .*(for (bytes from and to )?rank|where MPI hangs))" "$lab/err.$rank" || return
  done
}

# fails RANK...: after what was done just now these ranks end with such an error, and nothing is left
# of the job on any host. Both long before a time-out of 600 s that they may have.
fails() {
  SECONDS=0
  await 300 "an error of each of the ranks $*" named "$@" || wrong "not all say who is missing"
  errors_after=$SECONDS
  await 200 "the end of all processes" none_left || wrong "left: $(left)"
  gone_after=$SECONDS
  # shellcheck disable=SC2015
  await 60 "mpirun's exit code" test -s "$lab/code" && [ "$(<"$lab/code")" -ne 0 ] || wrong "mpirun's exit code"
  kill -KILL "$job" 2>/dev/null
  echo "$what: errors after $errors_after s, all is gone after $gone_after s"
}
keepalive() { flags+=(--mca oob_tcp_keepalive_time "$1" --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 3); }

case_link() { # a cable is pulled out: mpirun misses the host before the ranks' time-out
  begin 3
  keepalive 5
  train 600
  link node3 down
  fails 0 1 2 3
}

case_link_of_mpirun() { # that of the host where mpirun and rank 0 are
  begin 3
  keepalive 5
  train 600
  link node1 down
  fails 0 1 2 3 4 5
}

case_timeout() { # the ranks miss the host before mpirun does, which then needs the kernel's patience
  local host
  begin 2
  for host in node1 node2; do on "$host" sysctl -q -w net.ipv4.tcp_retries2=5; done
  train 20
  link node2 down
  fails 0 1
}

case_kill() { # all processes of a host
  begin 3
  train 600
  kill_host node2
  fails 0 1 4 5
  says err "Remote daemon: .* on node node2"
}

case_restart() { # the same, and the program goes on with the other host
  local words="$mpiexec --bind-to none --mca mpi_yield_when_idle 1 -x HERO_RUN -x HERO_STEPS -x HERO_DEATHS"
  begin 2
  mkdir "$lab/run" "$lab/threads"
  export HERO_STEPS=40 HERO_RUN=$lab/run HERO_DEATHS="wait 3 9 0" # the last rank, in the fifth step
  on node1 timeout -k 5 1800 "$lab/bin/hero_mpi_ranks" restarts --ranks 4 --restarts 1 --elastic --timeout 60 \
    --hosts "$lab/home/hosts $lab/home/hostfile" --mpirun "$words" >"$lab/out" 2>"$lab/err" </dev/null &
  job=$!
  await 600 "rank 3" grep -q "rank 3 waits" "$lab/err"
  kill_host node2
  wait "$job"
  code=$?
  ends_well
  says err "attempt 1 of 2 .*, node2 has no room any more, it starts again on 2 ranks from step 4$"
  says out "^attempt 2 on 2 from step 4$"
  none_left || wrong "left: $(left)"
  HERO_DEATHS="" HERO_RUN=$lab/threads threads "$lab/threads.out" hero_mpi_ranks restarts --ranks 4
  cmp "$lab/run/model.safetensors" "$lab/threads/model.safetensors" || wrong "other bits"
}

case_stop() { # a rank that is stopped for 20 s of a run that takes as long by itself; the others wait
  begin 2
  mkdir "$lab/run" "$lab/threads"
  export HERO_PAUSE=500 HERO_RUN=$lab/run
  flags+=(-x HERO_PAUSE -x HERO_RUN)
  mpi hero_mpi_ranks resume &
  job=$!
  await 300 "the first checkpoint" has_checkpoint
  stopped=$(pgrep -n -f "^$lab/bin/hero_mpi_ranks")
  kill -STOP "$stopped"
  sleep 20
  kill -0 "$job" || wrong "did not wait"
  kill -CONT "$stopped"
  wait "$job"
  HERO_PAUSE=0 HERO_RUN=$lab/threads threads "$lab/threads.out" hero_mpi_ranks resume --ranks 4
  cmp "$lab/run/model.safetensors" "$lab/threads/model.safetensors" || wrong "other bits"
}

case_late() { # the ranks of a host begin 10 s after the others
  begin 2
  HERO_LATE="node2 10"
  export HERO_LATE
  flags+=(-x HERO_LATE)
  compare_tutorial 11_ddp 4
  [ "$SECONDS" -ge 10 ] || wrong "nobody was late"
}

# shellcheck shell=bash disable=SC2154,SC2034
# --nccl (sourced by tests/run_gpu): ranks that share the GPU, over the real NCCL, as threads and as processes.

run_nccl() {
  local from=$SECONDS seconds=${HERO_GPU_NCCL_SECONDS:-240}
  if [ ! -x "$tests" ]; then
    report nccl "there is no hero_test_gpu"
    failed=1
    return
  fi
  if unpack_carried nccl; then export HERO_NCCL=$work/nccl/libnccl.so.2; fi
  export HERO_CUDA_POISON=1 NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=4 NCCL_DEBUG=${NCCL_DEBUG:-WARN}
  # The kernels of all ranks, each of a few blocks, must be on the GPU at the same time, and none behind
  # another rank's in a hardware queue: there are as many queues as there can be. No kernel is loaded while
  # another rank's waits. Processes have half of the time to themselves.
  CUDA_DEVICE_MAX_CONNECTIONS=32 CUDA_MODULE_LOADING=EAGER HERO_GPU_JOBS=1 HERO_GPU_CASES="nccl:*" \
    HERO_GPU_FILES="${HERO_GPU_FILES:-test_nccl test_nccl_eight test_strategies_gpu test_compressed test_offload}" \
    stage nccl nccl.log $((seconds / 2)) "$root/tests/gpu/by_file" "$tests" "$work/by_file" || failed=1
  show_said
  if grep -qE '^skipped .*(needs [0-9]+ GPUs|no NCCL|nccl)' "$work/said"; then
    report nccl "ranks do not share the GPU: that needs NCCL 2.30 or newer, which --prepare packs"
    failed=1
  fi
  run_processes $((seconds - (SECONDS - from)))
}

# unpack_carried NAME: the archive of that name, into a folder of that name; 1 where there is none
unpack_carried() {
  [ -f "$packed/$1.tar.xz" ] || return 1
  mkdir -p "$work/$1"
  unpack "$packed/$1.tar.xz" "$work/$1" 2>>"$out/nccl.log" && return
  report nccl "build/gpu-packed/$1.tar.xz cannot be unpacked, see nccl.log"
  failed=1
  return 1
}

show_said() {
  keep_results
  grep -v '^{' "$work/said" | grep -E '^(test_|processes|wrong|all:|died|failed|skipped)' | head -n 80
}

# run_processes SECONDS: first in time slices of the GPU, as processes share one by themselves; then more of
# them through its multi-process service, which runs their kernels side by side, where that comes up.
run_processes() {
  local mpirun
  if [ ! -x "$ranks" ]; then
    report processes "there is no hero_nccl_ranks, which --prepare packs where it finds Open MPI"
    return
  fi
  if unpack_carried open_mpi; then
    export LD_LIBRARY_PATH=$work/open_mpi/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    mpirun=$work/open_mpi/bin/mpirun
  elif ! mpirun=$(command -v mpirun); then
    report processes "there is no mpirun, which --prepare packs where it finds Open MPI"
    return
  fi
  local from=$SECONDS few=${HERO_GPU_FEW:-2 throw kill hang late} many=${HERO_GPU_MANY:-4 8}
  # shellcheck disable=SC2086
  stage processes nccl.log $(($1 * 2 / 3)) "$root/tests/gpu/processes" "$ranks" "$mpirun" "$work/processes" $few || failed=1
  show_said
  start_mps
  # shellcheck disable=SC2086
  stage "$mps" nccl.log $(($1 - (SECONDS - from))) "$root/tests/gpu/processes" "$ranks" "$mpirun" "$work/processes" $many || failed=1
  show_said
  end_mps
}

# Sets mps, what the processes share the GPU by. The service's settings and files are this run's own.
start_mps() {
  local control
  mps=processes
  if ! control=$(command -v nvidia-cuda-mps-control || ls /usr/local/nvidia/bin/nvidia-cuda-mps-control 2>/dev/null); then
    report mps "nvidia-cuda-mps-control is not here: processes have time slices"
    return
  fi
  mps_control=$control
  export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps_log
  mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
  if timeout -k 5 20 "$mps_control" -d >"$work/said" 2>&1 </dev/null &&
    timeout -k 5 40 "$tests" "arrays on the GPU come from the caching allocator" >>"$work/said" 2>&1 </dev/null &&
    echo get_server_list | timeout -k 5 20 "$mps_control" | grep -q '[0-9]'; then
    report mps "runs: processes share the GPU through it"
    mps=processes-mps
    return
  fi
  cat "$work/said" "$CUDA_MPS_LOG_DIRECTORY"/*.log >>"$out/nccl.log" 2>/dev/null
  report mps "does not come up here, see nccl.log: processes have time slices"
  end_mps
}

end_mps() {
  [ -n "${CUDA_MPS_PIPE_DIRECTORY:-}" ] || return
  echo quit | timeout -k 5 20 "$mps_control" >>"$out/nccl.log" 2>&1
  unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
}

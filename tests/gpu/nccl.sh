# shellcheck shell=bash disable=SC2154,SC2034
# --nccl (sourced by tests/run_gpu): ranks that share the GPU, over the real NCCL.

run_nccl() {
  if [ ! -x "$tests" ]; then
    report nccl "there is no hero_test_gpu"
    failed=1
    return
  fi
  if [ -f "$packed/nccl.tar.xz" ]; then
    mkdir -p "$work/nccl"
    if unpack "$packed/nccl.tar.xz" "$work/nccl" 2>>"$out/nccl.log"; then
      export HERO_NCCL=$work/nccl/libnccl.so.2
    else
      report nccl "build/gpu-packed/nccl.tar.xz cannot be unpacked, see nccl.log"
      failed=1
    fi
  fi
  # The kernels of all ranks, each of a few blocks, must be on the GPU at the same time, and none behind
  # another rank's in a hardware queue: there are as many queues as there can be. No kernel is loaded while
  # another rank's waits.
  HERO_CUDA_POISON=1 NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=4 CUDA_DEVICE_MAX_CONNECTIONS=32 \
    CUDA_MODULE_LOADING=EAGER HERO_GPU_JOBS=1 HERO_GPU_CASES="nccl:*" \
    HERO_GPU_FILES="${HERO_GPU_FILES:-test_nccl test_nccl_eight test_strategies_gpu test_compressed test_offload}" \
    stage nccl nccl.log "${HERO_GPU_NCCL_SECONDS:-240}" "$root/tests/gpu/by_file" "$tests" "$work/by_file" || failed=1
  keep_results
  grep -v '^{' "$work/said" | grep -E '^(test_|all:|died|failed|skipped)' | head -n 80
  if grep -qE '^skipped .*(needs [0-9]+ GPUs|no NCCL|nccl)' "$work/said"; then
    report nccl "ranks do not share the GPU: that needs NCCL 2.30 or newer, which --prepare packs"
    failed=1
  fi
}

# shellcheck shell=bash disable=SC2154,SC2034
# --peers (sourced by tests/run_gpu): the same work in PyTorch.

run_peers() {
  if [ ! -x "$bench" ]; then
    report peers "there is no hero_bench_gpu"
    failed=1
  elif ! command -v python3 >/dev/null; then
    report peers "there is no python3"
    failed=1
  else
    local seconds
    seconds=$(left)
    # shellcheck disable=SC2086
    stage peers peers.log "$seconds" python3 "$root/tests/peers/gpu.py" "$bench" \
      --seconds $((seconds > 40 ? seconds - 10 : seconds * 3 / 4)) --out "$out" ${HERO_GPU_BENCH_OPTIONS:-} || failed=1
    cat "$work/said"
  fi
}

# shellcheck shell=bash disable=SC2154,SC2034
# --cores (sourced by tests/run_gpu): no GPU, but as many cores as there are.

run_cores() {
  local seconds=${HERO_GPU_CORES_SECONDS:-240}
  if [ ! -x "$train" ] || [ ! -x "$cores" ]; then
    report cores "there is no hero_train, or no hero_cores"
    failed=1
  elif ! command -v python3 >/dev/null; then
    report cores "there is no python3"
    failed=1
  else
    # shellcheck disable=SC2086
    stage cores cores.log "$seconds" python3 "$root/tests/peers/cores.py" "$train" "$cores" \
      --limit $((seconds * 9 / 10)) --out "$out/results.jsonl" ${HERO_GPU_CORES_OPTIONS:-} || failed=1
    cat "$work/said"
  fi
}

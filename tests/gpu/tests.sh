# shellcheck shell=bash disable=SC2154,SC2034
# --tests (sourced by tests/run_gpu): all tests, the kernels under compute-sanitizer, and the build.

# Files whose kernels share memory between threads, or write where others read; not at model size.
sanitized="test_attention test_norm test_softmax test_reduce test_scan test_update test_exact_sum"

run_tests() {
  if [ -x "$tests" ]; then
    HERO_CUDA_POISON=1 CUDA_DEVICE_MAX_CONNECTIONS=32 CUDA_MODULE_LOADING=EAGER stage tests tests.log "${HERO_GPU_TEST_SECONDS:-300}" \
      "$root/tests/gpu/by_file" "$tests" "$work/by_file" || failed=1
    keep_results
    grep -v '^{' "$work/said" | grep -E '^(test_|all:|died|failed|skipped)' | head -n 80
    if grep -q 'skipped: CUDA finds no GPU' "$work/said"; then
      report tests "some found no GPU, although there is one"
      failed=1
    fi
    run_sanitizer
  else
    report tests "there is no hero_test_gpu"
    failed=1
  fi
  # a check of what was carried along
  if [ -n "$from_source" ] || [ -n "${HERO_GPU_PROGRAMS:-}" ]; then return; fi
  if command -v cmake >/dev/null && [ "$(left)" -ge "${HERO_GPU_BUILD_LEAST:-60}" ]; then
    build_from_source
  else
    report build "no build from source: no CMake, or no time left"
  fi
}

run_sanitizer() {
  local sanitizer tool file
  if ! sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null); then
    report sanitizer "compute-sanitizer is not installed"
    return
  fi
  # does it work here at all? Some sandboxes give it no device.
  if ! timeout -k 5 60 "$sanitizer" --error-exitcode 9 "$tests" "arrays on the GPU come from the caching allocator" \
    >"$work/said" 2>&1 </dev/null; then
    cat "$work/said" >>"$out/tests.log"
    if grep -q 'No test cases matched' "$work/said"; then
      report sanitizer "there is no such test"
      failed=1
      return
    fi
    report sanitizer "not supported here: $(grep -m 1 -iE 'not supported|error' "$work/said" || tail -n 1 "$work/said")"
    return
  fi
  for tool in memcheck racecheck synccheck; do
    # shellcheck disable=SC2086
    stage "$tool" tests.log "${HERO_GPU_SANITIZER_SECONDS:-70}" \
      "$root/tests/gpu/sanitize" "$sanitizer" "$tool" "$tests" $sanitized
    case $status in
      0) ;;
      124 | 137) report "$tool" "is not done, which says nothing of the kernels: $(grep -c '^passed' "$work/said") files passed" ;;
      *) failed=1 ;;
    esac
    grep -E '^(failed|ERROR SUMMARY|=========     *at |========= (Error|Invalid|Race))' "$work/said" | head -n 12
  done
}

# shellcheck shell=bash disable=SC2154,SC2034
# --smoke (sourced by tests/run_gpu): what is known after a minute, the most telling first.

# Ten tests, one for each way in which all of it can be wrong. Commas part Catch2's patterns.
smoke_tests='arrays of every dtype and layout come back from the GPU as they went'
smoke_tests+=',every functor takes scalars in place of arrays'
smoke_tests+=',the first of the largest and smallest elements is found; NaN wins'
smoke_tests+=',running sums along any dimension are the CPU*'
smoke_tests+=',softmax of infinities and NaN is the CPU*'
smoke_tests+=',layer norm and its gradients are the CPU*'
smoke_tests+=',integers are multiplied exactly*'
smoke_tests+=',products of every floating dtype and odd sizes are those of float64'
smoke_tests+=',attention of halves takes heads of 8 to 128*'
smoke_tests+=',parameters of any size and place are stepped to their last element'

versions() {
  nvidia-smi
  nvcc --version || /usr/local/cuda/bin/nvcc --version
  python3 -c 'import torch; print("PyTorch", torch.__version__, "CUDA", torch.version.cuda, "cuDNN", torch.backends.cudnn.version(), "NCCL", torch.cuda.nccl.version())'
  ldd --version | head -n 1
  uname -r
  nproc
  env | grep -E '^HERO_' | sort
  true
}

# kernels PROGRAM OPTION...: a row a kernel of one step, by NVIDIA's profiler
kernels() {
  # the clocks are left as they are: other programs may share the GPU
  ncu --profile-from-start off --clock-control none --metrics gpu__time_duration.sum \
    --csv --page raw "$@" >"$out/kernels.csv"
}

run_smoke() {
  local tiny=${HERO_GPU_BENCH_OPTIONS:-}
  export -f versions kernels
  export out
  stage versions smoke.log 30 bash -c versions
  if [ -x "$tests" ]; then
    HERO_CUDA_POISON=1 stage ten-tests smoke.log 90 "$tests" "$smoke_tests" || failed=1
    tail -n 4 "$work/said"
  else
    report ten-tests "there is no hero_test_gpu"
    failed=1
  fi
  if [ ! -x "$bench" ]; then
    report figures "there is no hero_bench_gpu"
    failed=1
    return
  fi
  # shellcheck disable=SC2086
  stage first-rows smoke.log 90 "$bench" $tiny --case copy --case matmul_4096_bfloat16 --case gpt2_b16 || failed=1
  keep_results
  show_rows
  # shellcheck disable=SC2086
  stage times smoke.log 60 "$bench" $tiny --times gpt2_b16 || failed=1
  head -n 70 "$work/said"
  if command -v ncu >/dev/null; then
    # shellcheck disable=SC2086
    if stage ncu smoke.log 120 bash -c 'kernels "$@"' kernels "$bench" $tiny --profile gpt2_b16; then
      python3 "$root/tests/gpu/kernel_table.py" "$out/kernels.csv" 2>&1 | tee -a "$out/smoke.log" | head -n 40
    else
      report ncu "does not work here; the table above stands for it"
    fi
  else
    report ncu "is not installed; the table above stands for it"
  fi
  # shellcheck disable=SC2086
  stage figures smoke.log 240 "$bench" $tiny || failed=1
  keep_results
  show_rows
}

# The last stage's rows as a table: what was wrong stands in words.
show_rows() {
  sed -nE 's/^\{"case": "([^"]*)", "variant": "([^"]*)", .*"seconds": ([^,]*), "amount": ([^,]*), "unit": "([^"]*)", "peak_bytes": ([^,]*), "first": ([^,]*), "last": ([^,]*), "cpu": ([^,]*),.*/\1 \2 \3 \4 \5 \7 \8 \9/p' "$work/said" |
    awk '{ printf "%-26s %-8s %10.4f ms %10.4g %s/s  first %s last %s cpu %s\n", $1, $2, $3 * 1e3, $4 / $3, $5, $6, $7, $8 }'
  sed -nE 's/^\{"case": "([^"]*)", "variant": "([^"]*)", "error": "(.*)"\}/\1 \2 FAILED: \3/p' "$work/said" | cut -c 1-240
}

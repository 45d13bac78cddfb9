# shellcheck shell=bash disable=SC2034,SC2154
# What the parts of tests/run --gpu share (sourced): stages and their logs, programs, libraries, the
# GPU. The caller sets root, out (a folder for results), work (one for what is not kept), begin and
# limit (seconds), failed (0).

packages_gpu="catch2 nlohmann-json3-dev libeigen3-dev libcli11-dev zlib1g-dev"
deps=$root/build/gpu-deps
packed=$root/build/gpu-packed

left() { echo $((limit - (SECONDS - begin))); }

# A line of the summary, shown at once.
report() { printf '%-12s %s\n' "$1" "$2" | tee -a "$out/summary.txt"; }

# stage NAME LOG SECONDS COMMAND...: runs it for so long at most, or longer in proportion where the
# limit of all is more than the usual 530 s, its output added to LOG as it comes; 0 when it ended
# well. Its status is in `status`, what it said in $work/said.
stage() {
  local name=$1 log=$2 seconds=$3 from=$SECONDS word rest before
  shift 3
  rest=$(left)
  [ "$limit" -le 530 ] || seconds=$((seconds * limit / 530)) # for a slow machine
  [ "$seconds" -le "$rest" ] || seconds=$rest
  if [ "$seconds" -lt 1 ]; then
    report "$name" "no time left"
    status=124
    return 1
  fi
  printf '==== %s: %s\n' "$name" "$*" >>"$out/$log"
  before=$(stat -c %s "$out/$log")
  timeout -k 5 "$seconds" "$@" </dev/null >>"$out/$log" 2>&1
  status=$?
  tail -c "+$((before + 1))" "$out/$log" >"$work/said"
  case $status in
    0) word=passed ;;
    124 | 137) word="ran past $seconds s" ;;
    *) word="failed ($status)" ;;
  esac
  report "$name" "$(printf '%-18s %4d s  %s' "$word" $((SECONDS - from)) "$log")"
  return $((status != 0))
}

finish() {
  report all "$(printf '%-18s %4d s' "$([ "$failed" -eq 0 ] && echo passed || echo failed)" $((SECONDS - begin)))"
  exit "$failed"
}

# The JSON lines of the last stage go to the results.
keep_results() { grep '^{' "$work/said" >>"$out/results.jsonl"; }

# What programs are made of, as one number.
sources() {
  (cd "$root" && find core autograd nn optim dist cuda tests/cuda tests/autograd tests/dist tests/nn tests/support tests/peers/programs \
    -type f ! -path 'tests/dist/*.cpp' \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 | LC_ALL=C sort -z |
    xargs -0 sha256sum | sha256sum | cut -d ' ' -f 1)
}

packed_fits() { [ -f "$packed/programs.tar.xz" ] && [ "$(cat "$packed/sources" 2>/dev/null)" = "$(sources)" ]; }

# Says what was not carried along, before anything takes time; 1 where nothing can be run without.
what_is_missing() {
  local tool lacking="" build=yes
  [ -d "$root/tests/golden" ] || lacking+=" tests/golden"
  for tool in cmake ninja g++; do command -v "$tool" >/dev/null || build="$build $tool"; done
  command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] || build="$build nvcc"
  [ -d "$deps" ] || [ -e /usr/include/nlohmann/json.hpp ] || build="$build build/gpu-deps"
  if [ "$build" != yes ]; then
    report missing "${build#yes }: no build from source"
    build=""
  fi
  if [ -z "${HERO_GPU_PROGRAMS:-}" ] && [ "$1" != build-only ] && ! packed_fits; then
    if [ -f "$packed/programs.tar.xz" ]; then
      report missing "build/gpu-packed is of other sources; programs are built here"
    else
      report missing "build/gpu-packed: programs are built here"
    fi
    [ -n "$build" ] || lacking+=" build/gpu-packed"
  fi
  [ "$1" != build-only ] || [ -n "$build" ] || lacking+=" build/gpu-deps"
  if [ "$1" = peers ] && ! command -v python3 >/dev/null; then lacking+=" python3"; fi
  [ -z "$lacking" ] && return 0
  say "not here:$lacking; tests/run --gpu --prepare makes build/gpu-packed and build/gpu-deps, to be carried along"
  return 1
}

# Headers that the toolkit may lack, from build/gpu-deps, else from PyTorch; libraries that the
# machine lacks, from PyTorch.
find_libraries() {
  local nvcc major pytorch_headers=""
  nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
  major=$("$nvcc" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
  eval "$(python3 "$root/tests/peers/gpu_libraries.py" "${major:-13}" 2>/dev/null)"
  # the first for CMake, the second for __has_include, behind the toolkit's own
  local headers=$deps/include${pytorch_headers:+:$pytorch_headers}
  export CMAKE_INCLUDE_PATH="${CMAKE_INCLUDE_PATH:+$CMAKE_INCLUDE_PATH:}$headers"
  export CPLUS_INCLUDE_PATH="${CPLUS_INCLUDE_PATH:+$CPLUS_INCLUDE_PATH:}$headers"
  export HERO_GOLDEN_DIR=$root/tests/golden
  export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo} # ranks of one machine, which may have no network
}

# A file that does not compile costs the program that needs it; the other is made.
configure_and_build() {
  local options="-DHERO_MPI=OFF -DHERO_TUTORIALS=OFF"
  [ -d "$deps" ] && options+=" -DCMAKE_PREFIX_PATH=$deps"
  # shellcheck disable=SC2086
  cd "$root" && cmake --preset cuda $options &&
    cmake --build build/cuda --parallel "$(nproc)" --target hero_test_gpu hero_bench_gpu hero_train hero_cores -- -k 0
}

build_from_source() {
  export -f configure_and_build
  export root deps
  rm -f "$root"/build/cuda/tests/hero_{test,bench}_gpu # what is there afterwards is of today
  stage build build.log "${HERO_GPU_BUILD_SECONDS:-300}" bash -c configure_and_build && return
  grep -E 'error|Error' -A 3 "$work/said" | head -n 20 >&2
  tail -n 5 "$work/said" >&2
  failed=1
}

# Sets tests, bench, ranks, train and cores, the programs; 1 where there is neither of the first two.
find_programs() {
  local folder=${HERO_GPU_PROGRAMS:-} # made by hand
  from_source=""
  if [ -z "$folder" ] && packed_fits; then
    folder=$work/programs
    mkdir -p "$folder"
    if ! unpack "$packed/programs.tar.xz" "$folder" 2>>"$out/build.log"; then
      report packed "cannot be unpacked, see build.log; programs are built here"
      folder=""
    fi
  fi
  if [ -z "$folder" ]; then
    from_source=yes
    folder=$root/build/cuda/tests
    build_from_source
  fi
  tests=$folder/hero_test_gpu bench=$folder/hero_bench_gpu ranks=$folder/hero_nccl_ranks
  train=$folder/hero_train cores=$folder/hero_cores
  [ -x "$tests" ] || [ -x "$bench" ]
}

unpack() {
  if command -v xz >/dev/null; then
    tar -C "$2" -xJf "$1"
  else
    python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$1" "$2"
  fi
}

# Sets device; 1, with a word, where nothing can be run on it. --cores can go on.
find_gpu() {
  local reason="" gpu=""
  device=""
  if [ -x "$bench" ]; then
    device=$("$bench" --device 2>&1) || { reason=$device && device=""; }
  fi
  if nvidia-smi -L 2>/dev/null | grep -q '^GPU' || [ -e /dev/nvidia0 ]; then gpu=yes; fi
  if [ -z "$device" ] && [ -z "$gpu" ]; then
    report GPU "${reason:-no GPU}$([ "$part" = cores ] || echo "; nothing was run")"
    return 1
  elif [ -n "$reason" ]; then
    report GPU "there is one, but CUDA does not come up: $reason"
    failed=1
    return 1
  fi
}

# The first line of the results: where and when; a word that is not known is empty.
about() {
  local driver pytorch
  driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1)
  pytorch=$(python3 -c 'import torch; print(torch.__version__)' 2>/dev/null)
  printf '{"device": "%s", "driver": "%s", "pytorch": "%s", "sources": "%.12s", "packed": %s, "date": "%s"}\n' \
    "$device" "$driver" "$pytorch" "$(sources)" "$([ -z "$from_source" ] && echo true || echo false)" \
    "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >>"$out/results.jsonl"
  report GPU "${device:-?}, driver ${driver:-?}, PyTorch ${pytorch:-none}"
}

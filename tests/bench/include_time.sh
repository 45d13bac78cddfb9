#!/usr/bin/env bash
# tests/bench/include_time.sh [HEADER...]: seconds that including a header costs a user, best of five.
# Reads the include folder of build/release, which configuring makes.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
include=$root/build/release/include
[ $# -gt 0 ] || set -- hero/autograd/autograd.h
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# best COMMAND...: the shortest of five runs, in seconds
best() {
  local run begin end
  for run in 1 2 3 4 5; do
    begin=$(date +%s%N)
    "$@"
    end=$(date +%s%N)
    echo $(((end - begin) / 1000000))
  done | sort -n | head -n 1 | awk '{printf "%.2f", $1 / 1000}'
}

for header in "$@"; do
  printf '#include <%s>\nint main() {}\n' "$header" >"$scratch/main.cpp"
  compile=(g++ -std=c++20 -I "$include" "$scratch/main.cpp")
  printf '<%s>: %s s to read, %s s to compile at -O0, %s lines\n' "$header" \
    "$(best "${compile[@]}" -fsyntax-only)" "$(best "${compile[@]}" -c -o "$scratch/main.o")" \
    "$("${compile[@]}" -E -P | wc -l)"
done

# shellcheck shell=bash disable=SC2154,SC2034
# --prepare (sourced by tests/run_gpu): what is carried to a machine with a GPU.

most_glibc=2.34  # of Debian 12 and newer, Ubuntu 22.04 and newer
most_bytes=20000000
most_nccl_bytes=38000000
most_mpi_bytes=4000000
most_at_once=$((64 << 20))

prepare() {
  prepare_headers || return 1
  [ -n "$headers_only" ] && return
  mkdir -p "$packed"
  prepare_mpi && prepare_programs && prepare_nccl && travels
}

# pack NAME MOST FOLDER FILE...: the files of the folder as an archive, of so many bytes at most
pack() {
  local to=$packed/$1.tar.xz most=$2 bytes
  # kernels that several programs have are packed once
  tar -C "$3" --owner=0 --group=0 -cf - "${@:4}" | xz -T1 --x86 --lzma2=preset=9,dict=128MiB >"$to" || return 1
  bytes=$(stat -c %s "$to")
  say "$(megabytes "$bytes") in ${to#"$root"/}"
  [ "$bytes" -le "$most" ] || { say "that is more than $(megabytes "$most")" && return 1; }
}
megabytes() { echo "$(($1 / 1000000)).$(($1 / 100000 % 10)) MB"; }

# The tree and the headers travel, too, and compressed.
travels() {
  local tree headers archives all
  tree=$(cd "$root" && git ls-files -z --cached --others --exclude-standard | tar --null -T - -cf - 2>/dev/null | gzip | wc -c)
  headers=$(tar -C "$deps" -cf - . | gzip | wc -c)
  archives=$(cat "$packed"/*.tar.xz | wc -c)
  all=$((tree + headers + archives))
  say "$(megabytes "$all") travel: $(megabytes "$archives") in ${packed#"$root"/}, the headers $(megabytes "$headers"), the tree $(megabytes "$tree")"
  if [ "$all" -gt "$most_at_once" ]; then
    say "where no more than $(megabytes "$most_at_once") travel at once, ${packed#"$root"/}/nccl.tar.xz goes after the others"
  fi
}

# An Open MPI, where there is one, to start ranks that are processes.
prepare_mpi() {
  local folder=$root/build/gpu-programs/open_mpi
  mpi=""
  if ! "$root/tests/gpu/pack_open_mpi" "$folder" || ! command -v mpicxx >/dev/null; then
    say "no Open MPI is packed: no ranks that are processes"
    return
  fi
  mpi=yes
  pack open_mpi "$most_mpi_bytes" "$folder" bin lib share
}

# The packages' headers, CMake files and static libraries under one prefix, and what the library
# reads of NCCL's and cuDNN's headers.
prepare_headers() {
  # shellcheck disable=SC2086
  need $packages_gpu
  rm -rf "$deps"
  mkdir -p "$deps"
  local file
  # shellcheck disable=SC2086
  dpkg -L $packages_gpu | grep -E '^/usr/(include|lib|share/(eigen3|cmake|pkgconfig|nlohmann))' |
    grep -vE '/unsupported|/pkgconfig|\.so($|\.)' | while read -r file; do
    if [ -f "$file" ]; then
      # one lib/ for all: other systems do not look into lib/<machine>
      local to=${file#/usr/}
      case $to in lib/*/libz.a) to=lib/libz.a ;; include/*-linux-gnu/*) to=include/${to#include/*/} ;; esac
      mkdir -p "$deps/$(dirname "$to")"
      cp "$file" "$deps/$to"
    fi
  done
  for file in nccl.h cudnn_graph.h cudnn_version.h; do
    find -L /usr/local/cuda/include /usr/local/include /usr/include -maxdepth 2 -name "$file" \
      -exec cp -L {} "$deps/include/$file" \; -quit 2>/dev/null
  done
  say "$(du -sh "$deps" | cut -f1) in ${deps#"$root"/}"
}

# All programs in one archive: their kernels are the same bytes, which are then packed once.
prepare_programs() {
  local build=$root/build/gpu-programs folder=$root/build/gpu-programs/packed log made_of
  local programs="hero_test_gpu hero_bench_gpu hero_train hero_cores${mpi:+ hero_nccl_ranks_gpu}"
  log=$build/prepare.log
  mkdir -p "$build"
  # files that change while they are compiled make programs of neither
  made_of=$(sources)
  say "building the programs that travel, which takes minutes; see ${log#"$root"/}"
  # shellcheck disable=SC2086
  if ! (cd "$root" && cmake --preset release -B "$build" -DHERO_CUDA=ON -DHERO_AVX512=ON -DCMAKE_CUDA_ARCHITECTURES=90-real \
    -DCMAKE_CUDA_FLAGS=--no-compress -DHERO_MPI=OFF -DHERO_TUTORIALS=OFF -DHERO_INSTALL=OFF -DZLIB_USE_STATIC_LIBS=ON \
    -DHERO_GPU_PACKED=ON &&
    cmake --build "$build" --parallel "${HERO_GPU_BUILD_JOBS:-$(nproc)}" --target $programs) >"$log" 2>&1 </dev/null; then
    grep -E 'error|Error' -A 3 "$log" | head -n 20 >&2
    say "the programs were not built, see ${log#"$root"/}; the sources can still be built there"
    return 1
  fi
  rm -rf "$folder"
  mkdir -p "$folder"
  local program made
  for made in $programs; do
    program=${made/ranks_gpu/ranks}
    strip -o "$folder/$program" "$build/tests/$made"
    needs_nothing_else "$folder/$program" || return 1
    if grep -qaF "$root/tests/golden/" "$folder/$program"; then
      say "$program knows files of this tree by their path; tests/support/golden_dir.h says where they lie"
      return 1
    fi
  done
  [ "$made_of" = "$(sources)" ] || { say "the sources changed meanwhile; run it again" && return 1; }
  rm -f "$packed/sources"
  # shellcheck disable=SC2046
  pack programs "$most_bytes" "$folder" $(ls "$folder") || return 1
  echo "$made_of" >"$packed/sources"
}

# An NCCL that lets ranks share a GPU, with the code of one kind of GPU. Without it the other parts run.
prepare_nccl() {
  local library=${HERO_NCCL:-} folder=$root/build/gpu-nccl
  rm -rf "$folder"
  mkdir -p "$folder/packed"
  if [ -z "$library" ]; then
    if ! python3 -m pip download --quiet --no-deps --dest "$folder" 'nvidia-nccl-cu13>=2.30' >"$folder/log" 2>&1 ||
      ! python3 -m zipfile -e "$folder"/*.whl "$folder" >>"$folder/log" 2>&1; then
      say "no NCCL is packed: pip did not get nvidia-nccl-cu13 ($(tail -n 1 "$folder/log"))"
      return
    fi
    library=$folder/nvidia/nccl/lib/libnccl.so.2
  fi
  say "packing $library, which takes minutes"
  python3 "$root/tests/gpu/keep_arch.py" "$library" "$folder/packed/libnccl.so.2" 90 || return 1
  strip --strip-debug "$folder/packed/libnccl.so.2" || return 1 # a fifth of it
  pack nccl "$most_nccl_bytes" "$folder/packed" libnccl.so.2
}

# needs_nothing_else PROGRAM: of glibc no newer symbol than of most_glibc, and no library beside it but the
# MPI that is packed
needs_nothing_else() {
  local newest others
  others=$(objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }' |
    grep -vE '^(libc|libm|libdl|libpthread|librt|ld-linux-x86-64)\.so\.[0-9]$|^libmpi\.so' | tr '\n' ' ')
  [ -z "$others" ] || { say "$(basename "$1") needs $others" && return 1; }
  others=$(objdump -T "$1" | grep -oE '\((GLIBCXX|CXXABI|GCC)_[0-9.]+\)' | sort -u | tr '\n' ' ')
  [ -z "$others" ] || { say "$(basename "$1") needs a C++ library with $others" && return 1; }
  newest=$(objdump -T "$1" | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -uV | tail -n 1)
  if [ "$(printf '%s\n' "$newest" "$most_glibc" | sort -V | tail -n 1)" != "$most_glibc" ]; then
    say "$(basename "$1") needs glibc $newest, more than $most_glibc"
    return 1
  fi
}

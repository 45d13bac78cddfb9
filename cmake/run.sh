# shellcheck shell=bash disable=SC2034,SC2154
# Shared by tests/run, tutorials/run and .ci/run (sourced): Debian packages, quiet builds.
# The caller sets `self` (its name in messages) and `root` (the top of the source tree).

packages_build="g++ cmake ninja-build nlohmann-json3-dev zlib1g-dev libcli11-dev"
packages_test="catch2 libeigen3-dev"
packages_mpi="libopenmpi-dev openmpi-bin"
packages_cluster="openssh-server openssh-client iproute2 procps slurm-wlm munge"
packages_platforms="debootstrap python3-venv"
packages_data="dataset-fashion-mnist bible-kjv"
packages_site="chromium"
packages_debs="dpkg-dev fakeroot file"
packages_bench="libbenchmark-dev"
packages_fuzz="clang-14"
packages_arm="g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
packages_arm64="libeigen3-dev nlohmann-json3-dev zlib1g-dev libcli11-dev catch2" # of that architecture
# what its programs load, and Open MPI
packages_arm64+=" libc6 libgcc-s1 libstdc++6 zlib1g libopenmpi-dev libopenmpi3 libpmix2 libmunge2 libhwloc15"
packages_arm64+=" libudev1 libnl-3-200 libevent-core-2.1-7 libevent-pthreads-2.1-7"
packages_figures="gnuplot-nox fonts-dejavu-core"
packages_lint="git clang-format-14 clang-tidy-14 doxygen doxygen-awesome-css libjs-mathjax"

say() { echo "$self: $*" >&2; }

has_apt() { command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; }

# missing PACKAGE...: those that dpkg does not know as installed. Elsewhere than on Debian the
# answer is none, and CMake tells what it lacks.
missing() {
  has_apt || return 0
  local installed package
  installed=" $(dpkg-query -W -f '${db:Status-Status}=${Package} ' "$@" 2>/dev/null) "
  for package in "$@"; do
    case $installed in *" installed=$package "*) ;; *) echo "$package" ;; esac
  done
}

# install PACKAGE...: 0 when all are there afterwards, 1 when nobody may install them.
install() {
  local sudo="" log=$root/build/packages.log
  if [ "$(id -u)" -ne 0 ]; then
    sudo="sudo -n"
    $sudo true 2>/dev/null || return 1
  fi
  mkdir -p "$root/build"
  say "installing $*"
  if ! { $sudo apt-get update -q &&
         $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
       } </dev/null >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    say "installing failed, see $log"
    return 1
  fi
}

# say_once TEXT: what those without apt are told before the first build, about packages to install by hand.
say_once() { has_apt || compgen -G "$root/build/*/build.ninja" >/dev/null || say "$*"; }

# need PACKAGE...: installs what is missing; where that is not possible says how, and ends.
need() {
  local lacking
  say_once "there is no apt here to install what it needs: $* (docs/faq.md#platforms: the names of dnf and pacman)"
  lacking=$(missing "$@")
  [ -z "$lacking" ] && return 0
  # shellcheck disable=SC2086
  if ! install $lacking; then
    say "needs Debian packages; install them as root with"
    echo "apt-get install --no-install-recommends" $lacking >&2
    exit 2
  fi
  packages_changed=yes
}

# want LOSS PACKAGE...: the same for what is only nice to have: says what is lost, and goes on without.
want() {
  local loss=$1 lacking
  shift
  say_once "without $*: $loss"
  lacking=$(missing "$@")
  [ -z "$lacking" ] && return 0
  # shellcheck disable=SC2086
  if install $lacking; then
    packages_changed=yes
  else
    say "going on without" $lacking"; $loss"
    without_packages+=" "$lacking
  fi
}

# asleep COMMAND...: no daemon of what it installs is started; Debian asks the program policy-rc.d.
asleep() (
  policy=/usr/sbin/policy-rc.d sudo=""
  [ "$(id -u)" -eq 0 ] || sudo="sudo -n"
  if [ ! -e "$policy" ] && command -v dpkg-query >/dev/null; then
    trap '$sudo rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    # shellcheck disable=SC2016
    $sudo sh -c 'printf "#!/bin/sh\nexit 101\n" >"$1" && chmod 755 "$1"' sh "$policy" 2>/dev/null || true
  fi
  "$@"
)

# time_left SECONDS LINE: how long a build goes on that has come to ninja's line "[done/all] ..." after so many seconds.
# Commands take about the same time each, but for the first, which the others wait for.
time_left() {
  local seconds=$1 done all left
  [[ $2 =~ ^\[([0-9]+)/([0-9]+)\] ]] || return 0
  done=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
  [ "$seconds" -ge 10 ] && [ "$done" -ge 5 ] || return 0
  left=$((seconds * (all - done) / done))
  if [ "$left" -gt 90 ]; then
    echo "about $(((left + 30) / 60)) minutes left: "
  else
    echo "about $left seconds left: "
  fi
}

# show_progress LOG: rewrites one line of the terminal with the last line of a build's log, and how long it goes on.
show_progress() {
  local line begun=$SECONDS
  while sleep 1 && kill -0 $$ 2>/dev/null; do # it ends with the script
    line=$(tail -n 1 "$1" 2>/dev/null || true)
    line="$(time_left $((SECONDS - begun)) "$line")$line"
    printf '\r\033[K%s' "${line:0:$((${COLUMNS:-80} - 1))}" >&2
  done
}

# has_gpu: whether this machine has a GPU that CUDA can use; the same files as in cmake/HeroCuda.cmake.
has_gpu() { compgen -G "/dev/nvidia[0-9]*" >/dev/null || [ -e /dev/dxg ]; }
# has_avx512: whether the processor is one for which cmake/HeroLevels.cmake has kernels of their own
has_avx512() { grep -qs '^flags.* avx512vl' /proc/cpuinfo; }
has_nvcc() { command -v nvcc /usr/local/cuda/bin/nvcc >/dev/null; }

# found_here: what CMake looks for only when it configures
found_here() {
  if has_gpu; then echo gpu; fi
  if has_nvcc; then echo nvcc; fi
  if has_avx512; then echo avx512; fi
}

# build PRESET TARGET...: configures where needed and builds; all chatter goes to the build's log, whose
# last line a terminal shows meanwhile. What want() went without is written down there, and whether a GPU,
# nvcc and AVX-512 were there: where that has changed, CMake looks again. HERO_WERROR, HERO_ARCH, HERO_CUDA and
# HERO_AVX512 are taken from the environment where they are set there. A folder that was configured without tests or
# tutorials, as for an installation, gets them.
build() {
  local preset=$1 dir=$root/build/$1 name options="" lacked found progress="" good=yes
  shift
  for name in HERO_WERROR HERO_ARCH HERO_CUDA HERO_AVX512; do
    if [ -n "${!name:-}" ] && ! grep -qs "^$name:[A-Z]*=${!name}\$" "$dir/CMakeCache.txt"; then
      options+=" -D$name=${!name}"
    fi
  done
  for name in HERO_TESTS HERO_TUTORIALS; do
    if grep -qs "^$name:BOOL=OFF\$" "$dir/CMakeCache.txt"; then options+=" -D$name=ON"; fi
  done
  mkdir -p "$dir"
  lacked=$(cat "$dir/without_packages" 2>/dev/null || true)
  found=$(found_here)
  if [ ! -e "$dir/build.ninja" ]; then
    case "$preset ${HERO_CUDA:-AUTO} $found" in
      "release AUTO nvcc" | "native AUTO nvcc") say "no GPU here: building without the CUDA backend; HERO_CUDA=ON builds it" ;;
    esac
    say "building, which takes some minutes the first time; see $dir/build.log"
  fi
  if [ -t 2 ]; then
    : >"$dir/build.log"
    show_progress "$dir/build.log" &
    progress=$!
  fi
  # shellcheck disable=SC2086
  {
    if [ ! -e "$dir/build.ninja" ] || [ -n "$options" ] || [ -n "${packages_changed:-}" ] ||
      [ "$lacked" != "$(missing $lacked)" ] || [ "$found" != "$(cat "$dir/found_here" 2>/dev/null)" ]; then
      (cd "$root" && cmake --preset "$preset" $options) &&
        printf '%s\n' ${without_packages:-} >"$dir/without_packages" && echo "$found" >"$dir/found_here"
    fi && cmake --build "$dir" --parallel "$(nproc)" --target "$@"
  } </dev/null >"$dir/build.log" 2>&1 || good=""
  if [ -n "$progress" ]; then
    kill "$progress" 2>/dev/null || true
    wait "$progress" 2>/dev/null || true
    printf '\r\033[K' >&2
  fi
  if [ -z "$good" ]; then
    { grep -E 'error|Error' -A 5 "$dir/build.log" || true; } | head -n 20 >&2
    tail -n 20 "$dir/build.log" >&2
    say "the build failed, all of it is in $dir/build.log"
    exit 1
  fi
}

# shellcheck shell=bash disable=SC2034,SC2154
# Shared by the scripts of this folder (sourced, after cmake/run.sh): Python with the peers in it, and
# programs built beside the library. The caller sets `self` and `root`.

# --help is what the script's head says, before anything is installed or built.
case ${1:-} in -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0" && exit 0 ;; esac

# peers_python PACKAGE...: sets `python`, in a virtual environment that has these packages from PyPI.
# It lies in build/peers-venv (several GB with torch); HERO_PEERS_VENV names another folder.
peers_python() {
  need $packages_build python3-venv
  local venv=${HERO_PEERS_VENV:-$root/build/peers-venv} imports
  imports=$(IFS=,; echo "${*%%[*}")
  python=$venv/bin/python
  "$python" -c "import $imports" 2>/dev/null && return 0
  say "installing $* into $venv"
  mkdir -p "$root/build"
  { python3 -m venv "$venv" && "$venv/bin/pip" install "$@" setuptools; } >"$root/build/peers-venv.log" 2>&1 ||
    { say "installing failed, see build/peers-venv.log"; exit 1; }
}

# peers_program NAME SOURCE... -- FLAGS...: builds build/release/peers/NAME where a source, a header of
# this folder or a library is newer, and sets `program`. The library must be built already.
peers_program() {
  local build=$root/build/release name=$1 newest sources=()
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do sources+=("$1") && shift; done
  [ $# -eq 0 ] || shift
  program=$build/peers/$name
  mkdir -p "$build/peers"
  newest=$(find "${sources[@]}" "$root"/tests/peers/programs/*.h "$root"/tests/nn/golden/*.h "$build"/libhero_*.a -printf '%T@ %p\n' |
    sort -n | tail -n 1 | cut -d' ' -f2)
  [ -e "$program" ] && [ "$program" -nt "$newest" ] && return 0
  local library=() component
  for component in dist optim nn autograd core; do
    [ -e "$build/libhero_$component.a" ] && library+=("$build/libhero_$component.a")
  done
  # the kernels, to which nothing refers by name (cmake/HeroKernels.cmake), and those for AVX-512
  [ -e "$build/libhero_cpu_v4.a" ] &&
    library+=(-Wl,--undefined=_ZN4hero4core3cpu10kernels_v4Ev "$build/libhero_cpu_v4.a")
  library+=(-Wl,--undefined=_ZN4hero4core3cpu10kernels_v3Ev "$build/libhero_cpu_kernels.a" "$build/libhero_core.a")
  g++ -std=c++20 -O3 -march=native -I "$build/include" -I "$root/tests" "${sources[@]}" -o "$program" "${library[@]}" -lz -lpthread "$@"
}

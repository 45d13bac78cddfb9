# Sourced by tests that start processes by mpirun.

# open_mpi_alone MPIEXEC FOLDER: if MPIEXEC is Open MPI's, sets `flags` to its options for more ranks
# than cores on a machine that other tests use meanwhile, and exports what goes by the environment. Its
# files lie in FOLDER: the folder of all of its runs under /tmp, which each run makes and the last one
# removes, may go away while another starts. Fails if MPIEXEC is another MPI's.
open_mpi_alone() {
  flags=()
  case $("$1" --version 2>&1) in
    *"Open MPI"* | *OpenRTE* | *PRRTE*) ;;
    *) return 1 ;;
  esac
  flags=(--oversubscribe --bind-to none)
  [ "$(id -u)" -ne 0 ] || flags+=(--allow-run-as-root)
  # in containers a process may not read another's memory
  export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_btl_smsc=none
  mkdir -p "$2" || return 1
  export OMPI_MCA_orte_tmpdir_base=$2 PRTE_MCA_prte_tmpdir_base=$2 # of version 4, and of 5
}

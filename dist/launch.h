#pragma once
// Running a program on several ranks.
#include <functional>
#include <vector>

#include <hero/dist/communicator.h>

namespace hero::dist {

/// What a rank does.
using RankProgram = std::function<void(Communicator& world)>;

struct RunOptions {
  double timeout = 0.0;  ///< seconds a rank waits in one call; 0: HERO_TIMEOUT, or else 600
  bool prefix = false;   ///< every rank prints, and its lines begin with "[rank] "
  double link_bytes_per_second = 0.0;     ///< 0: as fast as memory; else see run_ranks()
  EngineKind engine = EngineKind::local;  ///< local, or nccl: rank i has GPU i to itself
};

/// Runs `program` on `ranks` threads of this process (one rank: on the calling thread) and returns
/// when all have ended. Each rank has its own Ledger and Traffic, and its default generator begins
/// where the caller's stands; together the ranks use at most num_threads() threads for kernels, or
/// one each. What the first rank to fail threw is thrown again here; the others are stopped by an
/// Error in their next call. With link_bytes_per_second a call is complete no earlier than the
/// bytes that its ranks send would have left them at that rate: each rank's leave one after the
/// other, beginning when all ranks of their call have made it. Ranks compute meanwhile: so one
/// machine shows how much of its communication a program hides.
void run_ranks(int ranks, const RankProgram& program, const RunOptions& options = {});

/// Runs `program` for ranks of a world of `size`, one after the other on the calling thread, on
/// meta arrays: the same code counts its memory (current_ledger()) and traffic (world.traffic())
/// for any number of ranks. `ranks`: which of them, each once; empty for all. Ranks whose calls
/// differ are an Error, as it is when they run: collectives, the two ends of a message, the counts
/// of an all_to_all. Cpu arrays of up to 1 MiB, by which programs agree on something, are taken as
/// if all ranks had said the same: a sum is N times this rank's, a mean or maximum the same,
/// gathered parts are copies; so a program goes one way on all ranks. Messages carry none of them.
void simulate_ranks(int size, const RankProgram& program, const std::vector<int>& ranks = {});

struct LaunchOptions {
  int default_ranks = 1;  ///< threads where there is no --ranks
};

/// The body of main(): runs `program` and returns the exit code: 1 when a rank failed, with its
/// message on stderr. There is one rank, or as many threads as `--ranks N` or default_ranks say;
/// but where mpirun or srun has started this process, there is one rank in each process of that MPI
/// world, on the mpi engine. Takes its options out of argc and argv: --ranks N (in an MPI world its
/// size, or an Error), --prefix (see RunOptions), --timeout SECONDS, --engine local, mpi (without
/// mpirun a world of one process) or nccl (threads or processes as without it, each with one of its
/// machine's GPUs), --link BYTES_PER_SECOND (threads only; see
/// run_ranks()). MPI is finalised when the process ends.
int launch(int& argc, char** argv, const RankProgram& program, const LaunchOptions& options = {});

}  // namespace hero::dist

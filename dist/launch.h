#pragma once
// Running a program on several ranks.
#include <functional>
#include <vector>

#include <hero/dist/communicator.h>

namespace hero::dist {

/// What a rank does.
using RankProgram = std::function<void(Communicator& world)>;

struct RunOptions {
  /// Seconds a rank waits for the others in one call of a step; 0: HERO_TIMEOUT, or else 600.
  double timeout = 0.0;
  bool prefix = false;                    ///< every rank prints, and its lines begin with "[rank] "
  double link_bytes_per_second = 0.0;     ///< 0: as fast as memory; else see run_ranks()
  EngineKind engine = EngineKind::local;  ///< local, or nccl: rank i has GPU i to itself
  /// The same until a rank's first call is complete, and where groups are made; 0:
  /// HERO_TIMEOUT_JOIN, HERO_TIMEOUT, or else 600.
  double timeout_join = 0.0;
  /// The same where a checkpoint is saved or loaded; 0: HERO_TIMEOUT_CHECKPOINT, HERO_TIMEOUT, or
  /// else 600.
  double timeout_checkpoint = 0.0;
};

/// Runs `program` on `ranks` threads of this process (one rank: on the calling thread) and returns
/// when all have ended. Each rank has its own Ledger and Traffic, and its default generator begins
/// where the caller's stands; together the ranks use at most num_threads() threads for kernels, or
/// one each. What the first rank to fail threw is thrown again here; the others are stopped by an
/// Error in their next call. With link_bytes_per_second a call is complete no earlier than the
/// bytes that its ranks send would have left them at that rate: each rank's leave one after the
/// other, beginning when all ranks of their call have made it. Ranks compute meanwhile: so one
/// machine shows how much of its communication a program hides.
/// \snippet test_examples_ranks.cpp run_ranks
void run_ranks(int ranks, const RankProgram& program, const RunOptions& options = {});

/// Runs `program` for ranks of a world of `size`, one after the other on the calling thread, on
/// meta arrays: the same code counts its memory (current_ledger()) and traffic (world.traffic())
/// for any number of ranks. `ranks`: which of them, each once; empty for all. Ranks whose calls
/// differ are an Error, as it is when they run: collectives, the two ends of a message, the counts
/// of an all_to_all. Cpu arrays of up to 1 MiB, by which programs agree on something, are taken as
/// if all ranks had said the same: a sum is N times this rank's, a mean or maximum the same,
/// gathered parts are copies; so a program goes one way on all ranks. Messages carry none of them.
/// \snippet test_examples_ranks.cpp simulate_ranks
void simulate_ranks(int size, const RankProgram& program, const std::vector<int>& ranks = {});

struct LaunchOptions {
  int default_ranks = 1;          ///< threads where there is no --ranks
  int restarts = 0;               ///< how often a program that fails is started again; see launch()
  std::vector<int> elastic = {};  ///< numbers of ranks it may run on; empty: as many as it is told
};

/// The body of main(): runs `program` and returns the exit code: 1 when a rank failed, with its
/// message on stderr. There is one rank, or as many threads as `--ranks N` or default_ranks say;
/// but where mpirun or srun has started this process, there is one rank in each process of that MPI
/// world, on the mpi engine. Takes its options out of argc and argv: --ranks N (in an MPI world its
/// size, or an Error), --prefix, --timeout SECONDS, --timeout-join SECONDS, --timeout-checkpoint
/// SECONDS (see RunOptions), --engine local, mpi (without
/// mpirun a world of one process) or nccl (threads or processes as without it, each with one of its
/// machine's GPUs), --link BYTES_PER_SECOND (threads only; see
/// run_ranks()). MPI is finalised when the process ends.
///
/// With `restarts`, or --restarts N, the calling process becomes a supervisor: the program runs in
/// a child, and where that fails it is started anew, at most N times in all, whatever it has
/// reached. A program that begins with resume() of a dist::Checkpointer goes on from the newest
/// checkpoint, with the bits of one that was not disturbed. It has failed when it ends with an exit
/// code other than 0 or by a signal; a line on stderr says how, from which step it goes on and on
/// how many ranks. It is not started again after exit code 2 (wrong options) or 127 (no such
/// command), nor when two attempts in a row were ended by an error, and no signal, before they
/// saved a checkpoint, nor after SIGINT, SIGTERM or SIGHUP, which are passed on. launch() returns
/// in the child. The supervisor ends with the child's exit code, or 128 + n after signal n, and
/// leaves no process behind.
///
/// Ranks that are threads are a fork of the calling process, which must have no other threads yet.
/// With --engine mpi or --mpirun "COMMAND" (words between blanks; "mpirun") the child is `COMMAND
/// -n RANKS PROGRAM ..` with the words of this process's command line. Where mpirun or srun has
/// started the program `restarts` does nothing, and --restarts is an Error.
///
/// With `elastic`, --elastic=8,4,2,1, or --elastic (--ranks and its halves, as long as they are
/// whole) an attempt has the largest of these numbers of ranks, up to --ranks, for which there is
/// room: after a failure one rank less than before. But --hosts "COMMAND" is a command of the shell
/// that prints what there is, asked before every attempt: a host and its slots a line ("node1
/// slots=2", as in Open MPI's hostfile), of which mpirun gets as many as it needs (--host).
int launch(int& argc, char** argv, const RankProgram& program, const LaunchOptions& options = {});

}  // namespace hero::dist

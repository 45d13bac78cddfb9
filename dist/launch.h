#pragma once
// Running a program on several ranks.
#include <functional>
#include <vector>

#include <hero/dist/communicator.h>

namespace hero::dist {

/// What every rank runs.
using RankProgram = std::function<void(Communicator& world)>;

/// Options of run_ranks().
struct RunOptions {
  /// Seconds that a rank waits for the others in a call; 0: the environment's HERO_TIMEOUT, or else
  /// 600. It is also the default of timeout_join and timeout_checkpoint.
  double timeout = 0.0;
  bool prefix = false;  ///< true: every rank prints, and its lines begin with "[rank] "
  double link_bytes_per_second = 0.0;  ///< rate of a simulated link, see run_ranks(); 0: no limit
  /// True: each rank's thread runs on a core of its own, see run_ranks().
  bool bind_to_cores = false;
  BackendKind backend = BackendKind::local;  ///< local, or nccl, where rank i has GPU i to itself
  /// Seconds that a rank waits until its first call is complete, and while groups are made; 0:
  /// HERO_TIMEOUT_JOIN, timeout, HERO_TIMEOUT, or else 600.
  double timeout_join = 0.0;
  /// Seconds that a rank waits while a checkpoint is saved or loaded; 0: HERO_TIMEOUT_CHECKPOINT,
  /// timeout, HERO_TIMEOUT, or else 600.
  double timeout_checkpoint = 0.0;
};

/// Runs `program` on `ranks` threads of this process (a single rank on the calling thread), and
/// returns when all have ended. Each rank has its own Ledger and Traffic. It begins with the modes
/// of the calling thread (recording, Autocast, DetectAnomaly, EvalScope, scopes of errors and of
/// memory, ..) and with the state of its default generator; a Profiler of the caller records no
/// other thread. Together the ranks use at most num_threads() threads for kernels, or one each. If
/// ranks fail, run_ranks() throws the exception of the first one, and the other ranks get an Error
/// in their next call. With link_bytes_per_second, a call is complete only when the bytes that its
/// ranks send could have left them at this rate; the bytes of a rank leave one call after the
/// other, each from the moment when all ranks have made the call. Ranks compute meanwhile, so you
/// can see on one machine how much of its communication a program overlaps with computation.
///
/// With bind_to_cores, rank i runs on the i-th of the process's cores, as under mpirun --bind-to
/// core; throws an Error if there are fewer cores. Without it, Linux often wakes two ranks that
/// slept in a call on one core, which they share until its next tick, for up to 4 ms. Do not use it
/// when other programs keep the cores busy.
/// \snippet test_examples_ranks.cpp run_ranks
void run_ranks(int ranks, const RankProgram& program, const RunOptions& options = {});

/// Runs `program` for ranks of a world of `size`, one after the other on the calling thread, on
/// meta arrays: so the same code counts its memory (current_ledger()) and traffic (world.traffic())
/// for any number of ranks. `ranks` says which of them run, each once; empty for all. If the calls
/// of ranks differ, that is an Error, as it is in a real run: in collectives, the two ends of a
/// message, or the counts of an all_to_all. A collective of cpu arrays of up to 1 MiB, by which
/// programs agree on something, returns what it would if every rank passed this rank's values: a
/// sum is N times the value, a mean or maximum is the value, and gathered parts are copies; so the
/// program takes the same branches on all ranks. Messages cannot be arrays on the cpu.
/// \snippet test_examples_ranks.cpp simulate_ranks
void simulate_ranks(int size, const RankProgram& program, const std::vector<int>& ranks = {});

/// Options of launch().
struct LaunchOptions {
  int default_ranks = 1;  ///< number of ranks (threads) without --ranks
  int restarts = 0;  ///< how often a failed program is restarted without progress, see launch()
  /// Numbers of ranks on which the program may run; empty: only the given number.
  std::vector<int> elastic = {};
};

/// The body of main(): runs `program` on all ranks and returns the exit code, which is 1 if a rank
/// failed, with its message on stderr, or if what was printed could not be written. Ranks are as
/// many threads as `--ranks N` or default_ranks say; but if mpirun or srun has started this
/// process, each process of that MPI world is one rank, on the mpi backend. launch() takes its
/// options out of argc and argv: --ranks N (in an MPI world it must be the size of the world),
/// --prefix, --timeout SECONDS, --timeout-join SECONDS,
/// --timeout-checkpoint SECONDS (see RunOptions), --bind-to-cores (for threads only), --backend
/// local, mpi (without mpirun a world of one process) or nccl (ranks are threads or processes as
/// they would be without it, and each uses one GPU of its machine), and --link BYTES_PER_SECOND
/// (for threads only; see run_ranks()). MPI is finalised when the process ends.
///
/// With `restarts`, or --restarts N, the calling process becomes a supervisor: the program runs in
/// a child process, and is restarted if it fails, at most N times without progress: the count
/// begins again at N when an attempt has saved a newer checkpoint. It waits 1 s before it restarts,
/// and twice as long each time while there is no progress, up to 60 s. A program that begins with
/// resume() of a dist::Checkpointer resumes from the newest checkpoint, with the bits of a run that
/// was not interrupted. A program has failed if it ends with an exit code other than 0 or by a
/// signal; a line on stderr says how it ended, from which step it resumes, and on how many ranks.
/// It is not restarted after exit code 2 (wrong options) or 127 (no such command), nor after
/// SIGINT, SIGTERM or SIGHUP, which are passed on to it, nor if two attempts in a row ended by an
/// error before they saved a checkpoint. A signal, a time-out of ranks that wait and a host that
/// mpirun lost (its exit code 205) do not count towards these two. launch() returns in the child.
/// The supervisor ends with the child's exit code, or 128 + n after signal n, and leaves no process
/// behind.
///
/// If ranks are threads, the child is a fork of the calling process, which must have no other
/// threads yet. With --backend mpi or --mpirun "COMMAND" (words separated by blanks; "mpirun" by
/// default) the child is `COMMAND -n RANKS PROGRAM ..` with the words of this process's command
/// line. If mpirun or srun has started the program, `restarts` does nothing, and --restarts is an
/// Error.
///
/// With `elastic`, --elastic=8,4,2,1, or --elastic (which stands for --ranks and its halves, as
/// long as they are whole numbers), an attempt has the largest of these numbers of ranks that is at
/// most --ranks and, after a failure, smaller than before. With --hosts "COMMAND" instead, the
/// shell runs the command before every attempt; it prints the available hosts with their slots, one
/// per line ("node1 slots=2", as in Open MPI's hostfile), and mpirun gets as many of them as it
/// needs (--host).
int launch(int& argc, char** argv, const RankProgram& program, const LaunchOptions& options = {});

}  // namespace hero::dist

#pragma once
// Running a program as one rank of the MPI world in which this process was started.
#include <functional>
#include <optional>
#include <string>

#include <hero/dist/backends/mpi/world.h>
#include <hero/dist/launch.h>

namespace hero::dist {

/// The world that mpirun or srun has started, according to the environment.
struct StartedWorld {
  std::string variable;  ///< the environment variable that says so; "": no such world
  int size = 0;          ///< 0: not known
  int rank = -1;         ///< -1: not known
};
StartedWorld started_world();

/// Initialises MPI in the first call, and returns the number of its processes. Throws an Error if
/// it is not the world that was started.
int mpi_world_size(const StartedWorld& started);

/// This process's number in the world of MPI, which is initialised.
int mpi_world_rank();

/// Runs `program` on all processes of the world, each of which must call this, and returns when all
/// have ended, with the same failure on all of them if there was one: its rank is that of the first
/// rank to fail by itself. `report` prints it, once, as soon as a rank has ended with it. May be
/// called again. A program that continues after a failure for 30 seconds (or the time-out if that
/// is less, but at least 5 seconds) is stopped with the whole world; after a time-out, it is
/// stopped after 2 seconds if the missing process does not answer at all.
std::optional<Failure> run_on_mpi(const RankProgram& program, const RunOptions& options,
                                  const MpiWorld::Report& report);

}  // namespace hero::dist

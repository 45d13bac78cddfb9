#pragma once
// Running a program as one rank of the MPI world this process was started in.
#include <functional>
#include <optional>
#include <string>

#include <hero/dist/backends/mpi/world.h>
#include <hero/dist/launch.h>

namespace hero::dist {

/// What the environment says of the world that mpirun or srun has started.
struct StartedWorld {
  std::string variable;  ///< the one that says so; "" where there is no such world
  int size = 0;          ///< 0: not known
  int rank = -1;         ///< -1: not known
};
StartedWorld started_world();

/// Initialises MPI, the first time, and returns the number of its processes. An Error where that is
/// not the world that was started.
int mpi_world_size(const StartedWorld& started);

/// This process's number in the world of MPI, which is initialised.
int mpi_world_rank();

/// Runs `program` on all processes of the world, each of which must call this, and returns when all
/// have ended, with the same failure on all of them if there was one: its rank is that of the first
/// rank to fail by itself. `report` prints it, once, as soon as a rank has ended with it. May be
/// called again. A program that goes on for long after a failure (30 seconds, or the time-out where
/// that is less, but 5 at least) is stopped with the whole world; 2 seconds after a time-out where
/// the missing process does not answer at all.
std::optional<Failure> run_on_mpi(const RankProgram& program, const RunOptions& options,
                                  const MpiWorld::Report& report);

}  // namespace hero::dist

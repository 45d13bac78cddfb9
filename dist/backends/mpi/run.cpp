#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>

#include <unistd.h>

#include <hero/core/error.h>
#include <hero/core/random.h>
#include <hero/core/thread_pool.h>
#include <hero/dist/backends/mpi/backend.h>
#include <hero/dist/backends/mpi/run.h>
#include <hero/dist/backends/mpi/transport.h>
#include <hero/dist/backends/rank_frame.h>
#include <hero/dist/backends/run_ranks.h>
#include <hero/dist/flight_recorder.h>

namespace hero::dist {
namespace {

int number_in(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  int value = otherwise;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), value);
  return value;
}

// The backend of the run that this thread is in.
thread_local Backend* running = nullptr;

class Running {
 public:
  explicit Running(Backend& backend) { running = &backend; }
  ~Running() { running = nullptr; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

// What the rank has waited for counts as done before it exits, as before it throws.
void exit_in_run() {
  try {
    if (running != nullptr) running->confirm();
  } catch (const std::exception&) {
    // the other ranks have heard of it
  }
  end_with_process();
}

// Processes of one host share its cores, unless each is bound to its own already.
int thread_share(const Transport& transport) {
  const int cores = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  return std::clamp(cores / transport.local_size(), 1, num_threads());
}

}  // namespace

StartedWorld started_world() {
  const bool slurm = std::getenv("SLURM_JOB_ID") != nullptr;
  struct Names {
    const char *size, *rank;
  };
  for (const Names names :
       {Names{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, Names{"PMI_SIZE", "PMI_RANK"},
        Names{"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}) {
    const int size = number_in(names.size, 0);
    // a shell inside of a Slurm job is a step of one task, and no world
    const bool shell = size == 1 && slurm && std::strncmp(names.size, "OMPI", 4) != 0;
    if (size >= 1 && !shell) return {names.size, size, number_in(names.rank, -1)};
  }
  if (!slurm && std::getenv("PMIX_RANK") != nullptr) {
    return {"PMIX_RANK", 0, number_in("PMIX_RANK", -1)};
  }
  return {};
}

int mpi_world_size(const StartedWorld& started) {
  const auto check_world = [&](bool ok, int seen) {
    check(ok, "launch: started as ", started.size, " processes (", started.variable,
          "), but MPI sees ", seen,
          "; start the program with the mpirun of the MPI that it was built with");
  };
  // without its launcher MPI would make a world of this process alone
  if (started.variable == "OMPI_COMM_WORLD_SIZE" && started.size > 1) {
    check_world(std::getenv("PMIX_NAMESPACE") != nullptr || std::getenv("PMIX_RANK") != nullptr, 1);
  }
  const int size = mpi_transport(exit_in_run).size();
  check_world(started.size == 0 || started.size == size, size);
  return size;
}

int mpi_world_rank() { return mpi_transport(exit_in_run).rank(); }

std::optional<Failure> run_on_mpi(const RankProgram& program, const RunOptions& options,
                                  const MpiWorld::Report& report) {
  Transport& transport = mpi_transport(exit_in_run);
  const ThreadLimit share(thread_share(transport));
  std::mutex output;
  const RankFrame frame(transport.rank(), options.prefix, default_generator().state(), output);
  const auto world = std::make_shared<MpiWorld>(transport, timeouts_of(options), report);
  std::shared_ptr<Backend> backend = make_mpi_backend(world);
  try {
    if (options.backend == BackendKind::nccl) {
      const PhaseScope joining(Phase::join);
      backend = make_nccl_backend(backend, transport.local_rank(), transport.local_size(),
                                  timeouts_of(options));
    }
    const Running here(*backend);
    Communicator communicator(backend, frame.state(), "world");
    program(communicator);
    backend->drain();
  } catch (...) {
    write_flight_records_of_failure();
    const std::string message = message_of(first_error(*backend, std::current_exception()));
    world->fail_rank(message);
    backend->abandon();
    return world->end(&message);
  }
  return world->end(nullptr);
}

}  // namespace hero::dist

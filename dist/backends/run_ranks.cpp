#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hero/core/error.h>
#include <hero/core/exchange.h>
#include <hero/core/random.h>
#include <hero/core/thread_pool.h>
#include <hero/core/threads/cores.h>
#include <hero/core/threads/thread_state.h>
#include <hero/dist/backends/local/backend.h>
#include <hero/dist/backends/local/world.h>
#include <hero/dist/backends/rank_frame.h>
#include <hero/dist/backends/run_ranks.h>
#include <hero/dist/flight_recorder.h>

namespace hero::dist {
namespace {

constexpr int kMaxRanks = 1024;
constexpr double kDefaultTimeout = 600;  // seconds

// The seconds in this environment variable; 0 if it is not set.
double seconds_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return 0;
  double seconds = 0;
  const char* const end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, seconds);
  check(parsed.ec == std::errc{} && parsed.ptr == end && seconds > 0, "run_ranks: ", variable,
        " is not a positive number of seconds: '", text, "'");
  return seconds;
}

}  // namespace

Timeouts timeouts_of(const RunOptions& options) {
  const double for_all = seconds_in("HERO_TIMEOUT");
  const auto chosen = [&](double option, double own) {
    check(option >= 0, "run_ranks: a negative time-out: ", option);
    for (const double seconds : {option, own, options.timeout, for_all}) {
      if (seconds > 0) return seconds;
    }
    return kDefaultTimeout;
  };
  return {chosen(options.timeout, 0), chosen(options.timeout_join, seconds_in("HERO_TIMEOUT_JOIN")),
          chosen(options.timeout_checkpoint, seconds_in("HERO_TIMEOUT_CHECKPOINT"))};
}

namespace {

// What all rank threads of a run share.
struct Run {
  std::shared_ptr<LocalWorld> world;
  const RankProgram& program;
  RunOptions options;
  Generator::State generator;
  core::ThreadState caller;
  std::mutex output;
  std::vector<std::exception_ptr> errors;
  std::vector<int> cores;  // of the ranks; empty: not bound
  std::vector<std::shared_ptr<core::DeviceEvent>>
      begin;  // of the caller's streams; ranks go on there
  std::vector<std::vector<std::shared_ptr<core::DeviceEvent>>> ends;  // the ranks', for the caller
};

std::vector<int> cores_of(int ranks, const RunOptions& options) {
  if (!options.bind_to_cores) return {};
  const std::vector<int> cores = core::usable_cores();
  check(static_cast<size_t>(ranks) <= cores.size(), "run_ranks: bind_to_cores: ", ranks,
        " ranks, but this process has ", cores.size(), cores.size() == 1 ? " core" : " cores",
        "; run fewer ranks, or do not bind them");
  return cores;
}

void run_one(Run& run, int rank) {
  const RankFrame frame(rank, run.options.prefix, run.generator, run.output);
  std::shared_ptr<Backend> backend = make_local_backend(run.world, rank);
  std::optional<core::OnCore> bound;
  try {
    if (!run.cores.empty()) bound.emplace(run.cores[static_cast<size_t>(rank)]);
    core::join_all_before_use(run.begin);  // a rank makes streams on the devices that it uses
    if (run.options.backend == BackendKind::nccl) {
      const PhaseScope joining(Phase::join);
      backend = make_nccl_backend(backend, rank, run.world->size(), run.world->timeouts());
    }
    Communicator world(backend, frame.state(), "world");
    run.program(world);
    backend->drain();
    run.ends[static_cast<size_t>(rank)] = core::events_of_thread();
    run.world->finish(rank);
  } catch (...) {
    write_flight_records_of_failure();  // while the others still are where they were
    const std::exception_ptr error = first_error(*backend, std::current_exception());
    run.errors[static_cast<size_t>(rank)] = error;
    run.world->fail_rank(rank, message_of(error));
    backend->abandon();
  }
}

// What ranks that have ended say; the first failure's own line before what others made of it.
Outcome outcome_of(const Run& run) {
  const int first = run.world->first_failed();
  if (first >= 0) return {run.errors[static_cast<size_t>(first)], first};
  for (int rank = 0; rank < run.world->size(); ++rank) {
    const std::exception_ptr& error = run.errors[static_cast<size_t>(rank)];
    if (run.world->finished(rank) && error) return {error, -1};
  }
  return {};
}

}  // namespace

Outcome run_outcome(int ranks, const RankProgram& program, const RunOptions& options,
                    const Stuck& stuck) {
  check(ranks >= 1 && ranks <= kMaxRanks, "run_ranks: not from 1 to ", kMaxRanks,
        " ranks: ", ranks);
  check(static_cast<bool>(program), "run_ranks: there is no function for the ranks to run");
  require_backend(options.backend);
  check(options.backend == BackendKind::local || options.backend == BackendKind::nccl,
        "run_ranks: threads have the backend local or nccl, not ", name(options.backend));
  Run run{std::make_shared<LocalWorld>(ranks, timeouts_of(options), options.link_bytes_per_second),
          program,
          options,
          default_generator().state(),
          core::ThreadState::of_waiting(),
          {},
          std::vector<std::exception_ptr>(static_cast<size_t>(ranks)),
          cores_of(ranks, options),
          core::events_of_thread(),
          std::vector<std::vector<std::shared_ptr<core::DeviceEvent>>>(static_cast<size_t>(ranks))};
  if (ranks == 1) {
    run_one(run, 0);
  } else {
    // One rank at a time has the pool, the others compute on their own thread alone.
    const ThreadLimit share(std::max(1, num_threads() - ranks + 1));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      try {
        threads.emplace_back([&run, rank] {
          const core::ThreadState::Scope use(run.caller);
          run_one(run, rank);
        });
      } catch (const std::system_error&) {
        const auto error = std::make_exception_ptr(
            Error("run_ranks: the system has no thread for rank " + std::to_string(rank)));
        run.errors[static_cast<size_t>(rank)] = error;
        run.world->fail_rank(rank, message_of(error));
        break;
      }
    }
    if (stuck.tell && threads.size() == static_cast<size_t>(ranks)) {
      const std::vector<int> left = run.world->wait_for_end(stuck.seconds);
      if (!left.empty()) stuck.tell(outcome_of(run), left);
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (const auto& events : run.ends) core::join_all(events);
  return outcome_of(run);
}

void run_ranks(int ranks, const RankProgram& program, const RunOptions& options) {
  const Outcome outcome = run_outcome(ranks, program, options);
  if (outcome.error) std::rethrow_exception(outcome.error);
}

}  // namespace hero::dist

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <system_error>

#include <hero/core/error.h>
#include <hero/core/io/name_list.h>
#include <hero/dist/backends/call.h>
#include <hero/dist/backends/mpi/run.h>
#include <hero/dist/backends/mpi/transport.h>
#include <hero/dist/backends/notices.h>
#include <hero/dist/backends/rank_frame.h>
#include <hero/dist/backends/run_ranks.h>
#include <hero/dist/backends/supervisor.h>

namespace hero::dist {
namespace {

struct CommandLine {
  std::optional<int> ranks;
  RunOptions run;
  std::optional<BackendKind> backend;
  Restarts restarts;
};

template <class Number>
Number parse_number(const std::string& option, const std::string& text, Number least) {
  Number value{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  check(parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size() && value >= least,
        "launch: ", option, " needs a number of at least ", least, ": '", core::cut_text(text),
        "'");
  return value;
}

// The value of argv[i] if that is `option`, "--ranks 4" or "--ranks=4"; `used` counts its words.
bool take(const char* option, int argc, char** argv, int i, std::string& value, int& used) {
  const size_t length = std::strlen(option);
  if (std::strncmp(argv[i], option, length) != 0) return false;
  if (argv[i][length] == '=') {
    value = argv[i] + length + 1;
    used = 1;
    return true;
  }
  if (argv[i][length] != '\0') return false;
  check(i + 1 < argc, "launch: ", option, " needs a value");
  value = argv[i + 1];
  used = 2;
  return true;
}

// An option of restarts, at argv[i].
bool take_restarts(int argc, char** argv, int i, Restarts& restarts, int& used) {
  std::string value;
  if (take("--restarts", argc, argv, i, value, used)) {
    restarts.count = parse_number("--restarts", value, 0);
  } else if (std::strcmp(argv[i], "--elastic") == 0) {
    restarts.elastic = true;
  } else if (take("--elastic", argc, argv, i, value, used)) {
    restarts.elastic = true;
    restarts.numbers = parse_numbers(value);
  } else {
    return take("--hosts", argc, argv, i, restarts.hosts, used) ||
           take("--mpirun", argc, argv, i, restarts.mpirun, used);
  }
  return true;
}

// Options of launch() are removed; all words behind "--" are the program's own.
CommandLine parse(int& argc, char** argv) {
  CommandLine options;
  int kept = 0;
  for (int i = 0; i < argc;) {
    if (i > 0 && std::strcmp(argv[i], "--") == 0) {
      while (i < argc) argv[kept++] = argv[i++];
      break;
    }
    std::string value;
    int used = 1;
    if (i > 0 && take("--ranks", argc, argv, i, value, used)) {
      options.ranks = parse_number("--ranks", value, 1);
    } else if (i > 0 && take("--timeout", argc, argv, i, value, used)) {
      options.run.timeout = parse_number("--timeout", value, 1e-3);
    } else if (i > 0 && take("--timeout-join", argc, argv, i, value, used)) {
      options.run.timeout_join = parse_number("--timeout-join", value, 1e-3);
    } else if (i > 0 && take("--timeout-checkpoint", argc, argv, i, value, used)) {
      options.run.timeout_checkpoint = parse_number("--timeout-checkpoint", value, 1e-3);
    } else if (i > 0 && take("--backend", argc, argv, i, value, used)) {
      options.backend = parse_backend(value);
    } else if (i > 0 && take("--link", argc, argv, i, value, used)) {
      options.run.link_bytes_per_second = parse_number("--link", value, 1.0);
    } else if (i > 0 && std::strcmp(argv[i], "--prefix") == 0) {
      options.run.prefix = true;
    } else if (i > 0 && std::strcmp(argv[i], "--bind-to-cores") == 0) {
      options.run.bind_to_cores = true;
    } else if (i == 0 || !take_restarts(argc, argv, i, options.restarts, used)) {
      argv[kept++] = argv[i];
    }
    i += used;
  }
  argc = kept;
  argv[argc] = nullptr;
  return options;
}

// The mpi backend where it is asked for, or where mpirun or srun has started several processes:
// each of them would otherwise run the whole program by itself and write the same files. The
// backend of the host; with --backend nccl the one beside which it works.
BackendKind choose_backend(const CommandLine& options, const StartedWorld& started) {
  const BackendKind backend = options.backend.value_or(BackendKind::local);
  const bool named = options.backend && backend != BackendKind::nccl;
  require_backend(backend);
  check(backend != BackendKind::simulated,
        "launch: simulated ranks have no values to compute with; use simulate_ranks()");
  if (backend == BackendKind::mpi) return backend;
  check(!named || started.size <= 1, "launch: started as ", started.size, " processes (",
        started.variable, "), which --backend local would not join; leave it out");
  if (named || started.variable.empty()) return BackendKind::local;
  check(has_mpi() || started.size <= 1, "launch: started as ", started.size, " processes (",
        started.variable,
        "), but this build has no mpi backend; run one process with --ranks N, or install Debian's "
        "libopenmpi-dev openmpi-bin and build again");
  return has_mpi() ? BackendKind::mpi : BackendKind::local;
}

void report(const char* program, const Failure& failure) {
  std::string line = program != nullptr ? std::string(program) + ": " : "";
  if (failure.rank >= 0) line += "rank " + std::to_string(failure.rank) + ": ";
  line += failure.line + "\n";
  std::cout.flush();
  std::fwrite(line.data(), 1, line.size(),
              stderr);  // at once, so that lines of processes stay whole
}

int run_in_world(const char* name, const CommandLine& options, const StartedWorld& started,
                 const RankProgram& program) {
  const int size = mpi_world_size(started);
  if (options.ranks && *options.ranks != size) {
    const Error error("launch: --ranks " + std::to_string(*options.ranks) +
                      ", but the MPI world has " + std::to_string(size) +
                      (size == 1 ? " process" : " processes") +
                      "; leave --ranks out, or start as many with mpirun -n");
    if (mpi_world_rank() == 0) report(name, {-1, error.what()});
    return 1;
  }
  const auto failure =
      run_on_mpi(program, options.run, [name](const Failure& what) { report(name, what); });
  return failure ? 1 : 0;
}

// Where the program is to be restarted only the process that runs it comes back from here, once
// with every attempt, and with the attempt's number of ranks.
void begin_attempt(const std::string& name, BackendKind backend, const StartedWorld& started,
                   const LaunchOptions& defaults, CommandLine& options) {
  Restarts& restarts = options.restarts;
  const bool has_options = restarts.elastic || !restarts.hosts.empty() || !restarts.mpirun.empty();
  if (!started.variable.empty()) {
    check(!restarts.count && !has_options, "launch: started by mpirun or srun (", started.variable,
          "), which --restarts must be above; start the program by itself, with --mpirun or "
          "--backend mpi, and --ranks N");
    return;
  }
  if (!restarts.count) restarts.count = defaults.restarts;
  if (!restarts.elastic && !defaults.elastic.empty()) {
    restarts.elastic = true;
    restarts.numbers = defaults.elastic;
  }
  check(*restarts.count > 0 || !has_options,
        "launch: --elastic, --hosts and --mpirun are about restarts; add --restarts N");
  if (*restarts.count == 0) return;
  if (backend == BackendKind::mpi && restarts.mpirun.empty()) restarts.mpirun = "mpirun";
  options.ranks = supervise(name, restarts, options.ranks.value_or(defaults.default_ranks));
}

// Tells the supervisor, where there is one, that the program has begun or failed.
RankProgram with_notices(const RankProgram& program) {
  return [&program](Communicator& world) {
    if (world.rank() == 0) tell_begun();
    try {
      program(world);
    } catch (...) {
      tell_failed();
      throw;
    }
  };
}

// A thread that hangs cannot be stopped: the process ends with it, as an MPI world does.
Stuck end_with_stuck(const char* name) {
  return {.tell = [name](const Outcome& outcome, const std::vector<int>& ranks) {
    report(name, {outcome.rank, message_of(outcome.error)});
    report(name, {-1, rank_list(ranks) + (ranks.size() == 1 ? " has" : " have") +
                          " not ended since, and cannot be stopped; the process ends"});
    std::_Exit(1);
  }};
}

int run_attempts(int& argc, char** argv, const RankProgram& body, const LaunchOptions& defaults) {
  const char* const name = argc > 0 ? argv[0] : nullptr;
  const RankProgram program = with_notices(body);
  const bool supervised = join_supervisor();
  const StartedWorld started = started_world();
  CommandLine options;
  BackendKind backend = BackendKind::local;
  try {
    check(static_cast<bool>(body), "launch: there is no function for the ranks to run");
    options = parse(argc, argv);
    if (supervised) options.ranks.reset();  // there are as many as mpirun was told to start
    backend = choose_backend(options, started);
    if (options.backend == BackendKind::nccl) options.run.backend = BackendKind::nccl;
    check((backend == BackendKind::local && options.run.backend == BackendKind::local) ||
              options.run.link_bytes_per_second == 0,
          "launch: --link throttles ranks that are threads of one process; leave it out");
    check(backend == BackendKind::local || !options.run.bind_to_cores,
          "launch: --bind-to-cores is for ranks that are threads of one process; leave it out, and "
          "tell mpirun --bind-to core");
    if (!supervised)
      begin_attempt(name == nullptr ? "" : name, backend, started, defaults, options);
  } catch (const Error& error) {  // the same on every process: one line is enough
    if (started.rank <= 0) report(name, {-1, error.what()});
    return 1;
  }
  try {
    if (backend == BackendKind::mpi) return run_in_world(name, options, started, program);
    const Outcome outcome = run_outcome(options.ranks.value_or(defaults.default_ranks), program,
                                        options.run, end_with_stuck(name));
    if (!outcome.error) return 0;
    report(name, {outcome.rank, message_of(outcome.error)});
  } catch (const std::exception& error) {
    report(name, {-1, error.what()});
  }
  return 1;
}

}  // namespace

int launch(int& argc, char** argv, const RankProgram& program, const LaunchOptions& defaults) {
  const int code = run_attempts(argc, argv, program, defaults);
  if (code != 0) return code;
  std::cout.flush();
  if (std::cout && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  report(argc > 0 ? argv[0] : nullptr, {-1, "cannot print: standard output is full or closed"});
  return 1;
}

}  // namespace hero::dist

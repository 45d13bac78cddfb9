#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include <hero/core/error.h>
#include <hero/dist/run_ranks.h>

namespace hero::dist {
namespace {

struct CommandLine {
  int ranks = 1;
  RunOptions run;
  EngineKind engine = EngineKind::local;
};

template <class Number>
Number parse_number(const std::string& option, const std::string& text, Number least) {
  Number value{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  check(parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size() && value >= least,
        "launch: ", option, " needs a number of at least ", least, ": '", text, "'");
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

// Options of launch() are removed; all words behind "--" are the program's own.
CommandLine parse(int& argc, char** argv, int default_ranks) {
  CommandLine options;
  options.ranks = default_ranks;
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
    } else if (i > 0 && take("--engine", argc, argv, i, value, used)) {
      options.engine = parse_engine(value);
    } else if (i > 0 && std::strcmp(argv[i], "--prefix") == 0) {
      options.run.prefix = true;
    } else {
      argv[kept++] = argv[i];
    }
    i += used;
  }
  argc = kept;
  argv[argc] = nullptr;
  return options;
}

// Each of several processes would run the whole program by itself and write the same files.
void refuse_other_launchers() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* text = std::getenv(variable);
    check(text == nullptr || std::atoi(text) <= 1, "launch: started as ", text ? text : "",
          " processes (", variable,
          "), but this build has no mpi engine; run one process with --ranks N");
  }
}

void report(const char* program, const Outcome& outcome) {
  std::string line = program != nullptr ? std::string(program) + ": " : "";
  if (outcome.rank >= 0) line += "rank " + std::to_string(outcome.rank) + ": ";
  try {
    std::rethrow_exception(outcome.error);
  } catch (const std::exception& error) {
    line += error.what();
  } catch (...) {
    line += "an exception that is no std::exception";
  }
  std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace

int launch(int& argc, char** argv, const RankProgram& program, const LaunchOptions& defaults) {
  Outcome outcome;
  try {
    const CommandLine options = parse(argc, argv, defaults.default_ranks);
    require_engine(options.engine);
    check(options.engine == EngineKind::local,
          "launch: simulated ranks have no values to compute with; use simulate_ranks()");
    refuse_other_launchers();
    outcome = run_outcome(options.ranks, program, options.run);
  } catch (...) {
    outcome.error = std::current_exception();
  }
  if (!outcome.error) return 0;
  report(argc > 0 ? argv[0] : nullptr, outcome);
  return 1;
}

}  // namespace hero::dist

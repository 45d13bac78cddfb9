// hero-plan: the best ways to train a GPT on a cluster, from a description in JSON.
#include <cstdio>

#include <CLI/CLI.hpp>

#include <hero/core/error.h>
#include <hero/core/io/file.h>
#include <hero/core/version.h>
#include <hero/dist/plan.h>
#include <hero/dist/simulation/cluster_file.h>

namespace {

namespace dist = hero::dist;

struct Options {
  std::string config, trace, write;
  int best = 10;
  int64_t simulations = 0;
  bool calibrate = false;
  int calibrate_ranks = 2;
};

void write_file(const std::string& path, const std::string& text) {
  hero::OutputFile file(path);
  file.write(text);
  file.commit();
}

// A plan takes a while: a file that cannot be made is told before.
void check_writable(const std::string& path) {
  if (!path.empty()) const hero::OutputFile possible(path);
}

void plan(const Options& options) {
  dist::PlanRequest request = dist::load_plan_request(options.config);
  check_writable(options.write);
  check_writable(options.trace);
  request.best = options.best;
  if (options.simulations > 0) request.simulations = options.simulations;
  const dist::Plan found = dist::plan(request);
  std::fputs(table(found).c_str(), stdout);
  const bool writes = !options.trace.empty() || !options.write.empty();
  hero::check(!found.best.empty(), "hero-plan: no strategy fits, for the reasons in the table",
              writes ? "; nothing is written" : "");
  if (!writes) return;
  const dist::Strategy& first = found.best.front().strategy;
  if (!options.write.empty()) write_file(options.write, config_text(request, first));
  if (!options.trace.empty()) write_trace(dist::strategy_timeline(request, first), options.trace);
}

void calibrate(const Options& options) {
  hero::nn::GPTConfig model;
  if (!options.config.empty()) model = dist::load_plan_request(options.config).model;
  check_writable(options.write);
  const std::string text = cluster_text(dist::calibrate(options.calibrate_ranks, model));
  if (options.write.empty()) {
    std::fputs(text.c_str(), stdout);
  } else {
    write_file(options.write, text);
  }
}

int wrong(const std::string& line) {
  std::fprintf(stderr, "hero-plan: %s\n", line.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The fastest ways to train a GPT on a cluster that fit into its memory.",
               "hero-plan");
  Options options;
  app.add_option("--config", options.config, "what is to be planned, as JSON");
  auto* best =
      app.add_option("--best", options.best, "strategies to show: 10")->check(CLI::Range(1, 1000));
  auto* most = app.add_option("--simulations", options.simulations,
                              "at most so many strategies are simulated: 64")
                   ->check(CLI::Range(1, 100000));
  auto* trace = app.add_option("--trace", options.trace, "writes the best one's step for Perfetto");
  app.add_option("--write", options.write, "writes the best one's configuration");
  auto* calibrates =
      app.add_flag("--calibrate", options.calibrate,
                   "measures this machine, for the model of --config, and prints it as a cluster");
  calibrates->excludes(best)->excludes(most)->excludes(trace);
  app.add_option("--ranks", options.calibrate_ranks, "of --calibrate: threads of this machine")
      ->check(CLI::Range(1, 4096))
      ->needs(calibrates);
  app.footer(
      "Exit status: 0 if a strategy fits (or this machine has been measured), 1 if none fits or a "
      "file cannot be read or written, 2 if the options are wrong.");
  app.set_version_flag("--version", std::string("hero ") + hero::kVersion);
  try {
    app.parse(argc, argv);
    if (!options.calibrate && options.config.empty()) {
      return wrong("--config FILE or --calibrate is needed; --help shows all options");
    }
    if (!options.write.empty() && options.write == options.trace) {
      return wrong("--write and --trace name the same file: " + options.write);
    }
    options.calibrate ? calibrate(options) : plan(options);
    hero::check(std::fflush(stdout) == 0 && std::ferror(stdout) == 0,
                "hero-plan: cannot print: standard output is full or closed");
    return 0;
  } catch (const CLI::Success& asked) {  // for help, or the version
    return app.exit(asked);
  } catch (const CLI::ExtrasError&) {  // its own text has them from the last to the first
    std::string words;
    for (const std::string& word : app.remaining()) words += " " + word;
    return wrong("these words are not expected:" + words + "; --help shows all options");
  } catch (const CLI::ParseError& error) {
    return wrong(error.what());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

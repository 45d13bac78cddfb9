#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>

#include <hero/core/ledger.h>
#include <hero/core/random.h>
#include <hero/dist/autotune.h>
#include <hero/dist/checkpoint/agree.h>

namespace hero::dist {

namespace {

// The largest of all ranks' numbers.
double largest(const Communicator& world, double mine) {
  const Array all = Array::full({1}, mine, kFloat64);
  world.all_reduce(all, {.op = ReduceOp::max, .unit = "autotune"});
  return all.item();
}

double steady_seconds() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double timed(const Communicator& world, const std::function<void()>& step,
             const std::function<double()>& clock) {
  world.barrier();
  const double begin = clock();
  step();
  return largest(world, clock() - begin);
}

// A candidate's round. False where it holds too much.
bool run_round(const Communicator& world, const TuneCandidate& candidate,
               const AutotuneOptions& options, int steps, TuneEntry& entry) {
  Ledger ledger;
  const LedgerScope scope(ledger);
  const std::function<void()> step = candidate.make();
  check(static_cast<bool>(step), "autotune: candidate '", candidate.name, "' has no step");
  step();
  entry.memory = static_cast<int64_t>(largest(world, static_cast<double>(ledger.peak())));
  if (options.memory > 0 && entry.memory > options.memory) return false;
  std::vector<double> times;
  for (int i = 0; i < steps; ++i) {
    times.push_back(timed(world, step, options.clock ? options.clock : steady_seconds));
  }
  const auto middle = times.begin() + steps / 2;
  std::nth_element(times.begin(), middle, times.end());
  entry.seconds = *middle;
  entry.steps += steps;
  ++entry.rounds;
  return true;
}

}  // namespace

Tuned autotune(const Communicator& world, const std::vector<TuneCandidate>& candidates,
               const AutotuneOptions& options) {
  check(!candidates.empty(), "autotune: no candidates");
  check(options.steps > 0, "autotune: steps must be positive: ", options.steps);
  std::vector<TuneEntry> entries;
  std::string lines = std::to_string(options.steps) + " steps\nmemory of " +
                      std::to_string(options.memory) + " bytes\n";
  for (const TuneCandidate& candidate : candidates) {
    entries.push_back({.name = candidate.name, .planned = candidate.planned});
    lines += "candidate '" + candidate.name + "'\n";
  }
  same_lines(world, "autotune: ranks try different things", lines,
             "give all ranks the same candidates in the same order", "autotune");
  std::vector<size_t> order(candidates.size()), alive;
  std::iota(order.begin(), order.end(), size_t{0});
  alive = order;
  const auto better = [&](size_t a, size_t b) {
    if (entries[a].rounds != entries[b].rounds) return entries[a].rounds > entries[b].rounds;
    return entries[a].seconds < entries[b].seconds;
  };
  const auto first_draw = default_generator().state();
  for (int steps = options.steps; !alive.empty(); steps *= 2) {
    std::erase_if(alive, [&](size_t i) {
      default_generator().set_state(first_draw);
      return !run_round(world, candidates[i], options, steps, entries[i]);
    });
    std::stable_sort(alive.begin(), alive.end(), better);
    alive.resize((alive.size() + 1) / 2);
    if (alive.size() <= 1) break;
  }
  default_generator().set_state(first_draw);
  std::stable_sort(order.begin(), order.end(), better);
  Tuned tuned;
  for (const size_t i : order) tuned.entries.push_back(entries[i]);
  if (tuned.entries.front().rounds > 0) tuned.best = static_cast<int>(order.front());
  return tuned;
}

std::string Tuned::table() const {
  const bool has_plan =
      std::any_of(entries.begin(), entries.end(), [](const auto& e) { return e.planned > 0.0; });
  std::string text = has_plan ? "     planned" : "";
  text += " ms per step   MB held   steps  candidate\n";
  for (const TuneEntry& entry : entries) {
    char line[96];
    if (has_plan) {
      std::snprintf(line, sizeof line, "%12.3f", 1e3 * entry.planned);
      text += line;
    }
    const double megabytes = static_cast<double>(entry.memory) / 1e6;
    if (entry.rounds > 0) {
      std::snprintf(line, sizeof line, "%12.3f%10.1f%8d  ", 1e3 * entry.seconds, megabytes,
                    entry.steps);
    } else {
      std::snprintf(line, sizeof line, "    too much%10.1f       -  ", megabytes);
    }
    text += line + entry.name + "\n";
  }
  return text;
}

}  // namespace hero::dist

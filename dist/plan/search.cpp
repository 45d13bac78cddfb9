// Finds the best strategies: first by bounds, then by simulations of those that remain.
#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <hero/core/threads/thread_state.h>
#include <hero/dist/plan.h>

namespace hero::dist {

namespace {

// Simulations that run at the same time: the results do not depend on it.
constexpr size_t kBatch = 8;

enum class Fate : uint8_t {
  open,
  too_large,
  host_too_large,
  slower,
  needless,
  simulated,
  not_simulated
};

struct Option {
  PlanEntry entry;
  Fate fate = Fate::open;

  double seconds() const { return entry.cost->seconds; }
};

// Bytes that a rank holds in its host's memory or on its disk above its part of them; not above 0
// where they fit.
int64_t over_host(const PlanRequest& request, const PlanEntry& e) {
  if (e.strategy.offload == PlanOffload::none) return 0;
  const int64_t host = e.cost ? e.cost->host : e.host_bound;
  const int64_t disk = e.cost ? e.cost->disk : e.disk_bound;
  return std::max(host - host_share(request), disk > 0 ? disk - disk_share(request) : 0);
}

// All, the ones that could be fastest first.
std::vector<Option> bounded(const PlanRequest& request) {
  std::vector<Option> all;
  for (const Strategy& s : strategies(request)) {
    Option one{{s,
                memory_bound(request, s),
                seconds_bound(request, s),
                host_bound(request, s),
                disk_bound(request, s),
                {}}};
    if (over_host(request, one.entry) > 0) one.fate = Fate::host_too_large;
    if (one.entry.memory_bound > request.cluster.memory) one.fate = Fate::too_large;
    all.push_back(one);
  }
  std::stable_sort(all.begin(), all.end(), [](const Option& a, const Option& b) {
    return a.entry.seconds_bound < b.entry.seconds_bound;
  });
  return all;
}

// Fills the entries' simulations. What the first of them to fail threw is thrown again.
void simulate_all(const PlanRequest& request, const std::vector<Option*>& batch) {
  std::atomic<size_t> next = 0;
  std::vector<std::exception_ptr> errors(batch.size());
  const auto work = [&] {
    for (size_t i = next++; i < batch.size(); i = next++) {
      try {
        PlanEntry& entry = batch[i]->entry;
        entry.cost = request.simulate ? request.simulate(request, entry.strategy)
                                      : simulate_strategy(request, entry.strategy);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  const size_t threads =
      std::min<size_t>(batch.size(), std::max(1u, std::thread::hardware_concurrency()));
  const core::ThreadState caller = core::ThreadState::of_waiting();
  const auto work_for_caller = [&] {
    const core::ThreadState::Scope use(caller);
    work();
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i) others.emplace_back(work_for_caller);
  work();
  for (std::thread& each : others) each.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

class Search {
 public:
  explicit Search(const PlanRequest& request) : request_(request), all_(bounded(request)) {}

  Plan run() {
    int64_t left = request_.simulations;
    for (std::vector<Option*> batch = next(left); !batch.empty(); batch = next(left)) {
      simulate_all(request_, batch);
      left -= static_cast<int64_t>(batch.size());
      for (Option* each : batch) judge(*each);
    }
    return told();
  }

 private:
  // The last of the best so far: nobody slower is wanted.
  double limit() const {
    if (best_.size() < static_cast<size_t>(request_.best)) {
      return std::numeric_limits<double>::infinity();
    }
    return best_.back()->seconds();
  }

  // Whether the same way with less offload is among these texts.
  static bool has_less(Strategy s, const std::set<std::string>& texts) {
    while (s.offload != PlanOffload::none) {
      s.offload = s.offload == PlanOffload::disk ? PlanOffload::host : PlanOffload::none;
      if (s.offload == PlanOffload::none && s.data() == 1) {
        s.sharding = PlanSharding::ddp;
        s.reshard = true;
      }
      if (texts.contains(s.text())) return true;
    }
    return false;
  }

  // Those that wait for what is simulated with this batch come first in the next one.
  std::vector<Option*> next(int64_t left) {
    std::vector<Option*> batch, waiting;
    std::set<std::string> texts;
    const size_t most = std::min(kBatch, static_cast<size_t>(left));
    const auto take = [&](Option& one) {
      if (has_less(one.entry.strategy, fitting_)) {
        one.fate = Fate::needless;
      } else {
        (has_less(one.entry.strategy, texts) ? waiting : batch).push_back(&one);
        texts.insert(one.entry.strategy.text());
      }
    };
    for (Option* each : std::exchange(waiting_, {})) {
      if (each->entry.seconds_bound > limit()) continue;
      batch.size() < most ? take(*each) : waiting.push_back(each);
    }
    while (batch.size() < most && at_ < all_.size()) {
      Option& one = all_[at_];
      if (one.fate == Fate::open && one.entry.seconds_bound > limit()) break;
      if (one.fate == Fate::open) take(one);
      ++at_;
    }
    waiting_ = std::move(waiting);
    return batch;
  }

  void judge(Option& one) {
    ++simulated_;
    one.fate = over_host(request_, one.entry) > 0 ? Fate::host_too_large : Fate::simulated;
    if (one.entry.cost->memory > request_.cluster.memory) one.fate = Fate::too_large;
    if (one.fate != Fate::simulated) return;
    fitting_.insert(one.entry.strategy.text());
    const auto behind =
        std::upper_bound(best_.begin(), best_.end(), one.seconds(),
                         [](double seconds, const Option* c) { return seconds < c->seconds(); });
    best_.insert(behind, &one);
    if (best_.size() > static_cast<size_t>(request_.best)) best_.pop_back();
  }

  Plan told() {
    Plan plan;
    plan.request = request_;
    plan.strategies = static_cast<int64_t>(all_.size());
    plan.simulated = simulated_;
    std::map<std::pair<int, int>, PlanGroup> groups;
    for (Option& one : all_) {
      if (one.fate == Fate::open) {
        one.fate = one.entry.seconds_bound > limit() ? Fate::slower : Fate::not_simulated;
      }
      const Strategy& s = one.entry.strategy;
      count(request_, groups[{s.tensor, s.pipe}], one);
    }
    for (const auto& [key, group] : groups) plan.groups.push_back(group);
    for (const Option* each : best_) plan.best.push_back(each->entry);
    return plan;
  }

  static void count(const PlanRequest& request, PlanGroup& group, const Option& one) {
    const auto least = [](auto& value, auto candidate, int64_t n) {
      value = n == 1 ? candidate : std::min(value, candidate);
    };
    const PlanEntry& e = one.entry;
    group.tensor = e.strategy.tensor;
    group.pipe = e.strategy.pipe;
    ++group.strategies;
    if (one.fate == Fate::too_large) {
      least(group.least_memory, e.cost ? e.cost->memory : e.memory_bound, ++group.too_large);
    }
    if (one.fate == Fate::host_too_large) {
      least(group.least_over, over_host(request, e), ++group.host_too_large);
    }
    if (one.fate == Fate::needless) ++group.needless;
    if (one.fate == Fate::slower) least(group.least_seconds, e.seconds_bound, ++group.slower);
    if (one.fate == Fate::simulated) least(group.best_seconds, one.seconds(), ++group.simulated);
    if (one.fate == Fate::not_simulated) ++group.not_simulated;
  }

  const PlanRequest& request_;
  std::vector<Option> all_;
  std::vector<Option*> best_;
  std::set<std::string> fitting_;  // texts of what was simulated and fits
  std::vector<Option*> waiting_;   // for what was in the batch before
  size_t at_ = 0;
  int64_t simulated_ = 0;
};

}  // namespace

Plan plan(const PlanRequest& request) { return Search(request).run(); }

}  // namespace hero::dist

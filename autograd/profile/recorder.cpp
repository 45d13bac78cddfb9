// ProfileRecorder: records the intervals and calls of a thread while a Profiler is open.
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <hero/autograd/graph/checkpoint.h>
#include <hero/autograd/graph/engine.h>
#include <hero/autograd/graph/op_scopes.h>
#include <hero/autograd/profile/profiler.h>
#include <hero/core/error.h>
#include <hero/core/exchange.h>
#include <hero/core/profile/kernel_cost.h>

namespace hero {

class ProfileRecorder : public core::Observer, public core::CostMeter {
 public:
  explicit ProfileRecorder(const ProfilerOptions& options);
  ~ProfileRecorder() override;
  ProfileRecorder(const ProfileRecorder&) = delete;
  ProfileRecorder& operator=(const ProfileRecorder&) = delete;

  /// That of this thread, or null.
  static ProfileRecorder* current();
  void stop();
  bool running() const { return running_; }
  /// A copy, with the time until now.
  Profile profile() const;

  /// An operation begins; 0 where it is a part of another one.
  int64_t begin_operation(const char* op);

  int64_t begin_part(std::string_view name, bool step) override;
  void end_part(int64_t part) noexcept override;
  int64_t begin_call(const core::ObservedCall& call) override;
  int64_t begin_wait(int64_t call) override;
  void complete_call(int64_t call) noexcept override;
  void charge(const core::KernelCost& cost) override;

 private:
  struct Interval {
    int64_t number;
    int32_t row;
    bool operation;
    bool step;
    int64_t call;  // of `calls_` where it is a wait, else -1
    double begin;
    double inside = 0.0;  // seconds of intervals inside
    int64_t flops = 0, bytes = 0;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  struct OpenCall {
    int64_t row;    // of Profile::collectives
    int64_t place;  // in Profile::calls, -1 over the limit
    double begin;
  };
  using Numbers = std::unordered_map<std::string, int32_t, Hash, std::equal_to<>>;

  static int32_t number_of(Numbers& numbers, std::string_view text);
  int32_t row(std::string_view name, std::string_view module, ProfilePhase phase);
  /// Now; the profile begins with the first of these.
  double start();
  int64_t open(int32_t row, bool operation, bool step, int64_t call);
  void close_top();
  void sample_memory(double now);

  ProfilerOptions options_;
  Profile profile_;
  Numbers texts_;
  std::unordered_map<uint64_t, int32_t> rows_;
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> collectives_;
  std::unordered_map<int64_t, OpenCall> open_calls_;
  std::vector<Interval> stack_;
  core::CostMeter* outer_ = nullptr;
  std::optional<core::CostScope> metering_;
  int open_steps_ = 0;
  bool running_ = true;
};

namespace {

constinit thread_local ProfileRecorder* current_recorder = nullptr;
constinit thread_local int64_t last_number = 0;  // of intervals and calls of this thread

double now() {
  using std::chrono::steady_clock;
  return std::chrono::duration<double>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

ProfileRecorder* ProfileRecorder::current() { return current_recorder; }

ProfileRecorder::ProfileRecorder(const ProfilerOptions& options) : options_(options) {
  check(current_recorder == nullptr && core::observer == nullptr,
        "profiler: one is open on this thread; stop it first");
  check(options.steps >= 0,
        "profiler: steps is a number of optimizer steps, 0 for no end: ", options.steps);
  check(options.most_events >= 0, "profiler: most_events is below 0: ", options.most_events);
  if (options.work) {
    outer_ = core::current_cost_meter();
    metering_.emplace(this);
  }
  current_recorder = this;
  core::observer = this;
  detail::open_scopes |= detail::kProfileScope;
  profile_.begin = now();
}

ProfileRecorder::~ProfileRecorder() { stop(); }

void ProfileRecorder::stop() {
  if (!running_) return;
  while (!stack_.empty()) close_top();
  running_ = false;
  profile_.seconds = now() - profile_.begin;
  current_recorder = nullptr;
  core::observer = nullptr;
  detail::open_scopes &= ~detail::kProfileScope;
  // a meter that was opened later goes on, and closes before this one
  if (metering_ && core::current_cost_meter() == this) metering_.reset();
}

Profile ProfileRecorder::profile() const {
  Profile copy = profile_;
  if (running_) copy.seconds = now() - profile_.begin;
  return copy;
}

int32_t ProfileRecorder::number_of(Numbers& numbers, std::string_view text) {
  const auto found = numbers.find(text);
  if (found != numbers.end()) return found->second;
  const auto number = static_cast<int32_t>(numbers.size());
  numbers.emplace(std::string(text), number);
  return number;
}

int32_t ProfileRecorder::row(std::string_view name, std::string_view module, ProfilePhase phase) {
  const auto n = static_cast<uint64_t>(number_of(texts_, name));
  const auto m = static_cast<uint64_t>(number_of(texts_, module));
  const uint64_t key = (n << 34) | (m << 4) | static_cast<uint64_t>(phase);
  const auto [found, made] = rows_.try_emplace(key, static_cast<int32_t>(profile_.rows.size()));
  if (made) {
    ProfileRow fresh;
    fresh.name = name;
    fresh.module = module;
    fresh.phase = phase;
    profile_.rows.push_back(std::move(fresh));
  }
  return found->second;
}

double ProfileRecorder::start() {
  const double time = now();
  if (profile_.memory.empty()) {
    profile_.begin = time;
    sample_memory(time);
  }
  return time;
}

int64_t ProfileRecorder::open(int32_t row, bool operation, bool step, int64_t call) {
  const double begin = start();
  stack_.push_back({++last_number, row, operation, step, call, begin});
  if (step) ++open_steps_;
  return last_number;
}

int64_t ProfileRecorder::begin_operation(const char* op) {
  if (!stack_.empty() && stack_.back().operation) return 0;
  const ProfilePhase phase = recomputing()        ? ProfilePhase::recompute
                             : backward_running() ? ProfilePhase::backward
                                                  : ProfilePhase::forward;
  return open(row(op, current_place(), phase), true, false, -1);
}

int64_t ProfileRecorder::begin_part(std::string_view name, bool step) {
  return open(row(name, current_place(), ProfilePhase::part), false, step, -1);
}

void ProfileRecorder::end_part(int64_t part) noexcept {
  // Intervals above it have been left by now: only a stop can have come between.
  bool known = false;
  for (const Interval& interval : stack_) known = known || interval.number == part;
  while (known && !stack_.empty()) {
    known = stack_.back().number != part;
    const bool step = stack_.back().step;
    close_top();
    if (step && --open_steps_ == 0 && ++profile_.steps == options_.steps) return stop();
  }
}

void ProfileRecorder::close_top() {
  if (options_.synchronize) {
    for (const auto& event : core::events_of_thread()) event->wait();
  }
  const Interval interval = stack_.back();
  stack_.pop_back();
  const double end = now(), seconds = end - interval.begin;
  ProfileRow& row = profile_.rows[static_cast<size_t>(interval.row)];
  row.calls += 1;
  row.seconds += seconds;
  row.self_seconds += seconds - interval.inside;
  row.flops += interval.flops;
  row.bytes += interval.bytes;
  if (!stack_.empty()) stack_.back().inside += seconds;
  if (interval.call >= 0) {
    profile_.collectives[static_cast<size_t>(interval.call)].waited += seconds;
  }
  if (static_cast<int64_t>(profile_.events.size()) >= options_.most_events) {
    ++profile_.left_out;
    return;
  }
  profile_.events.push_back({interval.row, static_cast<int32_t>(stack_.size()), interval.begin,
                             seconds, interval.flops, interval.bytes});
  if (interval.operation || stack_.empty()) sample_memory(end);
}

void ProfileRecorder::sample_memory(double time) {
  Profile::Memory sample{time, {}};
  const Ledger& ledger = current_ledger();
  for (size_t tag = 0; tag < kMemoryTagCount; ++tag) {
    sample.live[tag] = ledger.live(static_cast<MemoryTag>(tag), options_.memory.type);
  }
  if (!profile_.memory.empty() && profile_.memory.back().live == sample.live) return;
  profile_.memory.push_back(sample);
}

int64_t ProfileRecorder::begin_call(const core::ObservedCall& call) {
  std::string key;
  for (const std::string_view text : {call.op, call.axis, call.unit}) key += text, key += '\n';
  const auto [found, made] =
      collectives_.try_emplace(key, static_cast<int64_t>(profile_.collectives.size()));
  if (made) {
    profile_.collectives.push_back(
        {std::string(call.op), std::string(call.axis), std::string(call.unit)});
  }
  const int64_t row = found->second;
  ProfileCollective& sum = profile_.collectives[static_cast<size_t>(row)];
  sum.calls += 1;
  sum.bytes += call.bytes;
  OpenCall open{row, -1, start()};
  if (static_cast<int64_t>(profile_.calls.size()) < options_.most_events) {
    open.place = static_cast<int64_t>(profile_.calls.size());
    profile_.calls.push_back({row, open.begin, -1.0, call.bytes});
  } else {
    ++profile_.left_out;
  }
  open_calls_.emplace(++last_number, open);
  return last_number;
}

int64_t ProfileRecorder::begin_wait(int64_t call) {
  const auto found = open_calls_.find(call);
  if (found == open_calls_.end()) return 0;
  const int64_t at = found->second.row;
  const ProfileCollective& sum = profile_.collectives[static_cast<size_t>(at)];
  return open(row("wait " + sum.op, sum.unit, ProfilePhase::wait), false, false, at);
}

void ProfileRecorder::complete_call(int64_t call) noexcept {
  const auto found = open_calls_.find(call);
  if (found == open_calls_.end()) return;
  const OpenCall open = found->second;
  open_calls_.erase(found);
  const double end = now();
  profile_.collectives[static_cast<size_t>(open.row)].seconds += end - open.begin;
  if (open.place >= 0) profile_.calls[static_cast<size_t>(open.place)].end = end;
}

void ProfileRecorder::charge(const core::KernelCost& cost) {
  if (outer_ != nullptr) outer_->charge(cost);
  if (!running_) return;
  if (!stack_.empty()) {
    stack_.back().flops += cost.flops;
    stack_.back().bytes += cost.bytes;
    return;
  }
  ProfileRow& outside =
      profile_
          .rows[static_cast<size_t>(row("(no operation)", current_place(), ProfilePhase::part))];
  outside.flops += cost.flops;
  outside.bytes += cost.bytes;
}

namespace detail {

int64_t begin_profiled(const char* op) {
  ProfileRecorder* const recorder = ProfileRecorder::current();
  return recorder == nullptr ? 0 : recorder->begin_operation(op);
}

void end_profiled(int64_t operation) noexcept {
  ProfileRecorder* const recorder = ProfileRecorder::current();
  if (operation != 0 && recorder != nullptr) recorder->end_part(operation);
}

}  // namespace detail

Profiler::Profiler(const ProfilerOptions& options)
    : recorder_(std::make_unique<ProfileRecorder>(options)) {}
Profiler::~Profiler() = default;
void Profiler::stop() { recorder_->stop(); }
bool Profiler::running() const { return recorder_->running(); }
Profile Profiler::profile() const { return recorder_->profile(); }
std::string Profiler::table(const ProfileTableOptions& options) const {
  return profile().table(options);
}
void Profiler::save(const std::string& path) const {
  const Profile one = profile();
  save_trace(path, std::span<const Profile>(&one, 1));
}

}  // namespace hero

#include <algorithm>

#include <hero/autograd/graph/checkpoint.h>
#include <hero/dist/simulation.h>
#include <hero/dist/simulation/recorder.h>

namespace hero::dist {

namespace {

thread_local RankRecorder* current_recorder = nullptr;

// A call of a simulated rank, which is complete at once; it records when the rank first waits for
// it.
class Recorded : public Pending {
 public:
  Recorded(RankRecorder& recorder, int64_t number) : call(number), recorder_(recorder) {}
  bool test() override { return true; }
  bool complete() const override { return true; }
  void wait() override {
    if (!std::exchange(waited_, true)) recorder_.wait(call);
  }

  const int64_t call;

 private:
  RankRecorder& recorder_;
  bool waited_ = false;
};

}  // namespace

int32_t Recorder::group(const void* key, const std::string& axis, std::span<const int> ranks) {
  const auto [at, made] = groups_.try_emplace(key, static_cast<int32_t>(recording_.groups.size()));
  if (made) recording_.groups.push_back({axis, {ranks.begin(), ranks.end()}});
  return at->second;
}

int32_t Recorder::label(const std::string& text) {
  const auto [at, made] = labels_.try_emplace(text, static_cast<int32_t>(recording_.labels.size()));
  if (made) recording_.labels.push_back(text);
  return at->second;
}

RankRecorder::RankRecorder(Recorder& recorder, int rank, Traffic& traffic)
    : recorder_(recorder),
      traffic_(traffic),
      scope_(this),
      previous_(current_recorder),
      previous_transfers_(std::exchange(core::transfer_meter, this)) {
  timeline_.rank = rank;
  current_recorder = this;
}

RankRecorder::~RankRecorder() {
  current_recorder = previous_;
  core::transfer_meter = previous_transfers_;
}

RankRecorder* RankRecorder::current() { return current_recorder; }

void RankRecorder::charge(const core::KernelCost& cost) {
  const Cluster& cluster = recorder_.cluster();
  computing_.seconds += cluster.seconds(cost);
  if (cost.place != core::KernelPlace::device) return;
  computing_.flops += cost.flops;
  if (cost.kind != core::KernelKind::matmul && cost.kind != core::KernelKind::attention) return;
  const double peak_seconds = static_cast<double>(cost.flops) / cluster.peak_flops(cost.dtype);
  computing_.peak_seconds += peak_seconds;
  if (recomputing()) computing_.recomputed_seconds += peak_seconds;
}

void RankRecorder::add(TimelineEvent event) {
  event.live = current_ledger().live(DeviceType::meta);
  event.live_on_host = current_ledger().live(DeviceType::cpu);
  timeline_.events.push_back(event);
}

void RankRecorder::flush() {
  if (computing_.seconds > 0.0) add(computing_);
  computing_ = {.label = computing_.label};
}

void RankRecorder::begin_step() {
  note_peaks();
  if (!timeline_.parts.empty()) {
    timeline_.most_before = timeline_.parts.back().most;
    timeline_.host_most_before = timeline_.parts.back().host_most;
  }
  timeline_.events.clear();
  timeline_.parts.clear();
  computing_ = {};
  first_call_ = calls_;
  waited_.clear();
  traffic_.reset();
}

void RankRecorder::part(const std::string& name) {
  flush();
  computing_.label = recorder_.label(name);
  if (recorder_.keeps_parts()) begin_part();
}

void RankRecorder::begin_part() {
  Ledger& ledger = current_ledger();
  note_peaks();
  ledger.reset_peak();
  timeline_.parts.push_back({.label = computing_.label,
                             .first = timeline_.events.size(),
                             .live = ledger.live(DeviceType::meta),
                             .host_live = ledger.live(DeviceType::cpu)});
}

// Of the program and of the part that lasts.
void RankRecorder::note_peaks() {
  const Ledger& ledger = current_ledger();
  for (int tag = 0; tag < kMemoryTagCount; ++tag) {
    int64_t& most = timeline_.peak[static_cast<size_t>(tag)];
    most = std::max(most, ledger.peak(static_cast<MemoryTag>(tag), DeviceType::meta));
    int64_t& on_host = timeline_.host_peak[static_cast<size_t>(tag)];
    on_host = std::max(on_host, ledger.peak(static_cast<MemoryTag>(tag), DeviceType::cpu));
  }
  const int64_t most = ledger.peak(DeviceType::meta), on_host = ledger.peak(DeviceType::cpu);
  timeline_.peak_total = std::max(timeline_.peak_total, most);
  timeline_.host_peak_total = std::max(timeline_.host_peak_total, on_host);
  if (timeline_.parts.empty()) return;
  timeline_.parts.back().most = most;
  timeline_.parts.back().host_most = on_host;
}

int64_t RankRecorder::begin_transfer(Transfer transfer, int64_t bytes) {
  flush();
  add({.kind = TimelineEvent::Kind::move, .transfer = transfer, .call = calls_, .bytes = bytes});
  waited_.resize(static_cast<size_t>(calls_ - first_call_));
  waited_.push_back(false);
  return calls_++;
}

void RankRecorder::hold_in_file(int64_t bytes) {
  in_files_ += bytes;
  timeline_.disk_peak = std::max(timeline_.disk_peak, in_files_);
}

std::shared_ptr<Pending> RankRecorder::begin(const Call& call, const void* group_key,
                                             const std::string& axis, std::span<const int> ranks,
                                             int me) {
  flush();
  TimelineEvent event{.kind = TimelineEvent::Kind::begin, .op = call.op};
  event.group = recorder_.group(group_key, axis, ranks);
  if (call.op == Collective::send || call.op == Collective::recv) event.peer = call.root;
  event.label = recorder_.label(call.unit);
  event.call = calls_++;
  if (const auto* after = dynamic_cast<const Recorded*>(call.after.get())) {
    if (after->call >= first_call_) event.after = after->call;
  } else if (behind_ >= first_call_) {
    event.after = behind_;
  }
  const int size = static_cast<int>(ranks.size());
  event.bytes = bytes_sent(call, me, size);
  if (call.two_levels()) {
    event.ranks_of_host = call.ranks_of_host;
    event.bytes_across = bytes_sent_across(call, me, size);
  }
  add(event);
  return std::make_shared<Recorded>(*this, event.call);
}

void RankRecorder::wait(int64_t number) {
  if (number < first_call_) return;  // begun in a step that does not count
  const auto at = static_cast<size_t>(number - first_call_);
  if (at < waited_.size() && waited_[at]) return;  // a transfer, for the second time
  if (at < waited_.size()) waited_[at] = true;
  flush();
  add({.kind = TimelineEvent::Kind::wait, .call = number});
}

void RankRecorder::end() {
  flush();
  note_peaks();
  timeline_.traffic = traffic_;
  recorder_.add(std::move(timeline_));
}

void begin_simulated_step() {
  if (current_recorder) current_recorder->begin_step();
}

void simulated_part(const std::string& name) {
  if (current_recorder) current_recorder->part(name);
}

}  // namespace hero::dist

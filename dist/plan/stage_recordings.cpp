#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/backends/hosts.h>
#include <hero/dist/parallel/messages.h>
#include <hero/dist/plan/model_sizes.h>
#include <hero/dist/plan/program.h>
#include <hero/dist/plan/stage_recordings.h>
#include <hero/dist/simulation.h>
#include <hero/dist/simulation/recorder.h>

namespace hero::dist {

namespace {

// [note: units between passes] If units are freed after a pass, the units that are gathered when
// the next pass begins depend on the pass before; and units are gathered ahead in the order of the
// last forward pass, if that was of the same chunk.
bool frees_units(const Strategy& s) { return s.sharding >= PlanSharding::fsdp && s.reshard; }

Strategy with_micro_batches(Strategy s, int64_t micro_batches) {
  s.micro_batches = micro_batches;
  return s;
}

MessagePlan message_plan_of(const Strategy& s) {
  std::vector<std::vector<Action>> actions;
  for (int rank = 0; rank < s.pipe; ++rank) {
    actions.push_back(s.schedule.actions(rank, s.pipe, static_cast<int>(s.micro_batches)));
  }
  return MessagePlan(std::move(actions), s.schedule.chunks());
}

// An action as far as what it does depends on which one it is.
struct StagePass {
  Action::Kind kind = Action::Kind::forward;
  int chunk = 0;
  int micro = 0;  // 0: the first, 1: one between, 2: the last
  // Where units are freed: the kind of the pass before, and whether that and the last forward pass
  // before were of the same chunk; -1 where there is none, or where that does not matter.
  int before = -1, same_chunk = -1, same_forward = -1;

  bool operator<(const StagePass& other) const { return ordered() < other.ordered(); }
  std::tuple<Action::Kind, int, int, int, int, int> ordered() const {
    return {kind, chunk, micro, before, same_chunk, same_forward};
  }
};

std::vector<StagePass> stage_passes(const std::vector<Action>& actions, const Strategy& s,
                                    int stage) {
  std::vector<StagePass> passes;
  const Action *before = nullptr, *forward = nullptr;
  for (const Action& a : actions) {
    StagePass pass{.kind = a.kind, .chunk = a.chunk};
    pass.micro = a.micro == 0 ? 0 : a.micro + 1 == s.micro_batches ? 2 : 1;
    if (before != nullptr) {
      pass.before = static_cast<int>(before->kind);
      pass.same_chunk = before->chunk == a.chunk ? 1 : 0;
    }
    if (forward != nullptr) pass.same_forward = forward->chunk == a.chunk ? 1 : 0;
    passes.push_back(pass);
    // Where backward is split the first stage, whose input has no gradient, runs it with the
    // weights.
    const bool is_empty =
        s.schedule.splits_backward() && stage == 0 && a.kind == Action::Kind::backward;
    if (!frees_units(s) || is_empty) continue;
    before = &a;
    if (a.kind == Action::Kind::forward) forward = &a;
  }
  return passes;
}

// How a stage's ranks lie on hosts, on which it depends what they send within theirs and to others.
struct PlaceOnHosts {
  int first;  // the place in its host of the first one; 0 if all of them are on one host
  int index;  // of what stages reduce in two levels: the stage's index in its host; otherwise 0
  friend bool operator==(const PlaceOnHosts&, const PlaceOnHosts&) = default;
};

PlaceOnHosts place_on_hosts(const Strategy& s, int stage, int per_host) {
  const int ranks = s.data() * s.tensor, first = stage * ranks % per_host;
  std::vector<int> hosts;
  for (int i = 0; i < s.pipe; ++i) hosts.push_back(i * ranks / per_host);
  const int of_host = ranks_of_host(hosts);
  return {first + ranks <= per_host ? 0 : first, of_host > 0 ? stage % of_host : 0};
}

// Which stages are recorded, and for each stage the place of the one that is like it. The first and
// the last differ from all others. Those between hold and send the same, so one of them stands for
// all that have no other passes and lie on hosts in the same way.
struct RecordedStages {
  std::vector<int> numbers;
  std::vector<size_t> places;
};

RecordedStages recorded_stages(const Strategy& strategy, int per_host) {
  const Strategy s = with_micro_batches(strategy, StageRecordings::recorded(strategy));
  RecordedStages stages;
  std::vector<std::set<StagePass>> passes;  // of the recorded ones
  for (int stage = 0; stage < s.pipe; ++stage) {
    const auto list = stage_passes(
        s.schedule.actions(stage, s.pipe, static_cast<int>(s.micro_batches)), s, stage);
    const std::set<StagePass> mine(list.begin(), list.end());
    const bool between = stage > 0 && stage + 1 < s.pipe;
    const PlaceOnHosts on_hosts = place_on_hosts(s, stage, per_host);
    const auto is_like = [&](size_t place) {
      return place_on_hosts(s, stages.numbers[place], per_host) == on_hosts &&
             std::includes(passes[place].begin(), passes[place].end(), mine.begin(), mine.end());
    };
    size_t place = between ? 1 : passes.size();
    while (place < passes.size() && !is_like(place)) ++place;
    stages.places.push_back(place);
    if (place < passes.size()) continue;
    stages.numbers.push_back(stage);
    passes.push_back(mine);
  }
  return stages;
}

// One recorded stage, by its parts: what is before all actions; of each action what is posted and
// given back before it, and itself; what is behind all actions; the optimizer.
class RecordedStage {
 public:
  RecordedStage(const RankTimeline& timeline, const std::vector<Action>& actions,
                const std::vector<StagePass>& passes,
                const std::vector<std::vector<Message>>& receives)
      : timeline_(timeline), receives_(actions.size()), given_back_(actions.size()) {
    check(timeline.parts.size() == 2 * actions.size() + 3, "plan: ", actions.size(),
          " actions of a stage were recorded as ", timeline.parts.size(), " parts");
    for (const TimelineEvent& event : timeline.events) {
      if (event.op == Collective::send) border_ = std::max(border_, event.bytes);
    }
    std::map<std::string, size_t> numbers;
    for (size_t i = 0; i < actions.size(); ++i) numbers[to_string(actions[i])] = i;
    for (size_t i = 0; i < actions.size(); ++i) {
      instances_.try_emplace(passes[i], i);
      size_t event = begin(1 + 2 * i);
      check(end(1 + 2 * i) - event == receives[i].size(), "plan: before ", to_string(actions[i]),
            " a stage did more than to post ", receives[i].size(), " receives");
      for (const Message& message : receives[i]) {
        receives_[numbers.at(to_string(message.action))] = &timeline.events[event++];
      }
      if (i == 0) continue;
      // between two actions only messages come and go
      const int64_t change = part(2 + 2 * i).live - part(1 + 2 * i).live;
      given_back_[i - 1] = change - border_ * static_cast<int64_t>(receives[i].size());
    }
  }

  const TimelinePart& part(size_t i) const { return timeline_.parts[i]; }
  size_t parts() const { return timeline_.parts.size(); }
  size_t begin(size_t i) const { return part(i).first; }
  size_t end(size_t i) const {
    return i + 1 < parts() ? part(i + 1).first : timeline_.events.size();
  }
  const RankTimeline& timeline() const { return timeline_; }
  /// Bytes of what goes over a border.
  int64_t border() const { return border_; }
  bool has(const StagePass& pass) const { return instances_.contains(pass); }
  /// The number of the recorded action that is such a pass.
  size_t instance(const StagePass& pass) const { return instances_.at(pass); }
  /// The part that an action is.
  static size_t place(size_t action) { return 2 + 2 * action; }
  /// The beginning of the call that brings what an action waits for; null where that is nothing.
  const TimelineEvent* receive(size_t action) const { return receives_[action]; }
  /// Bytes, not above zero, that are free when what an action sent has come.
  int64_t given_back(size_t action) const { return given_back_[action]; }
  bool repeats_by_itself() const;

 private:
  const RankTimeline& timeline_;
  int64_t border_ = 0;
  std::map<StagePass, size_t> instances_;
  std::vector<const TimelineEvent*> receives_;
  std::vector<int64_t> given_back_;
};

// Whether no pass of a micro-batch between waits for a call of another pass, but for messages,
// nor another one for a call of it.
bool RecordedStage::repeats_by_itself() const {
  std::map<int64_t, size_t> begun;  // in which part
  std::set<size_t> repeated;
  for (const auto& [pass, action] : instances_) {
    if (pass.micro == 1) repeated.insert(place(action));
  }
  for (size_t i = 0; i < parts(); ++i) {
    for (size_t at = begin(i); at < end(i); ++at) {
      const TimelineEvent& event = timeline_.events[at];
      const bool message = event.op == Collective::send || event.op == Collective::recv;
      const bool moves = event.kind == TimelineEvent::Kind::move;
      if (moves || (event.kind == TimelineEvent::Kind::begin && !message)) begun[event.call] = i;
      if (event.kind != TimelineEvent::Kind::wait || !begun.contains(event.call)) continue;
      const size_t from = begun[event.call];
      if (from != i && (repeated.contains(from) || repeated.contains(i))) return false;
    }
  }
  return true;
}

// Makes a stage's timeline of a recorded one's parts.
class StageWriter {
 public:
  /// `further`: stages that it is behind the recorded one.
  StageWriter(const RecordedStage& stage, Recording& all, int rank, int further)
      : stage_(stage), all_(all), offset_(rank - stage.timeline().rank), further_(further) {
    made_.rank = rank;
  }

  void write(const MessagePlan& plan, int me, const Strategy& s, int64_t more_tokens) {
    live_ = stage_.part(0).live + more_tokens;
    host_live_ = stage_.part(0).host_live;
    copy(0);
    const std::vector<Action>& actions = plan.actions(me);
    const std::vector<StagePass> passes = stage_passes(actions, s, me);
    const auto receives = plan.receives(me);
    for (size_t i = 0; i < actions.size(); ++i) {
      instances_[to_string(actions[i])] = stage_.instance(passes[i]);
    }
    for (size_t i = 0; i < actions.size(); ++i) {
      for (const Message& message : receives[i]) post(message);
      if (i > 0) live_ += stage_.given_back(stage_.instance(passes[i - 1]));
      const size_t recorded = stage_.instance(passes[i]);
      if (const TimelineEvent* const receive = stage_.receive(recorded)) {
        calls_[receive->call] = posted_.at(to_string(actions[i]));
      }
      copy(RecordedStage::place(recorded));
    }
    const size_t last = stage_.parts() - 1;
    copy(last - 1);
    live_ = stage_.part(last).live + more_tokens;  // what the last stage kept of each is gone
    copy(last);
    hold(stage_.timeline().most_before + more_tokens);  // while the first step made states
    made_.host_peak_total = std::max(made_.host_peak_total, stage_.timeline().host_most_before);
    made_.disk_peak = stage_.timeline().disk_peak;
    all_.ranks.push_back(std::move(made_));
  }

 private:
  void hold(int64_t bytes) { made_.peak_total = std::max(made_.peak_total, bytes); }

  void post(const Message& message) {
    TimelineEvent event = *stage_.receive(instances_.at(to_string(message.action)));
    event.peer = message.from;
    event.group = group(event.group);
    event.call = posted_[to_string(message.action)] = next_call_++;
    made_.events.push_back(event);
    live_ += stage_.border();
    hold(live_);
  }

  // A part's events and what it changes in memory.
  void copy(size_t part) {
    for (size_t at = stage_.begin(part); at < stage_.end(part); ++at) {
      TimelineEvent event = stage_.timeline().events[at];
      if (event.kind == TimelineEvent::Kind::move) {
        event.call = calls_[event.call] = next_call_++;
      } else if (event.kind == TimelineEvent::Kind::begin) {
        event.group = group(event.group);
        if (event.op == Collective::send) event.peer += further_;
        if (event.after >= 0) event.after = calls_.at(event.after);
        event.call = calls_[event.call] = next_call_++;
      } else if (event.kind == TimelineEvent::Kind::wait) {
        event.call = calls_.at(event.call);
      }
      made_.events.push_back(event);
    }
    const TimelinePart& recorded = stage_.part(part);
    hold(live_ + recorded.most - recorded.live);
    made_.host_peak_total =
        std::max(made_.host_peak_total, host_live_ + recorded.host_most - recorded.host_live);
    if (part + 1 == stage_.parts()) return;
    live_ += stage_.part(part + 1).live - recorded.live;
    host_live_ += stage_.part(part + 1).host_live - recorded.host_live;
  }

  // The group that has the place among this stage's ranks which a recorded one has among its own;
  // those over stages are the same.
  int32_t group(int32_t recorded) {
    const auto known = groups_.find(recorded);
    if (known != groups_.end()) return known->second;
    GroupRecord moved = all_.groups[static_cast<size_t>(recorded)];
    int32_t at = recorded;
    if (offset_ != 0 &&
        std::find(moved.ranks.begin(), moved.ranks.end(), made_.rank) == moved.ranks.end()) {
      for (int& rank : moved.ranks) rank += offset_;
      at = static_cast<int32_t>(all_.groups.size());
      all_.groups.push_back(std::move(moved));
    }
    return groups_[recorded] = at;
  }

  const RecordedStage& stage_;
  Recording& all_;
  const int offset_, further_;
  RankTimeline made_;
  int64_t live_ = 0, host_live_ = 0, next_call_ = 0;
  std::map<int64_t, int64_t> calls_;         // the newest call that is like a recorded one
  std::map<std::string, int64_t> posted_;    // receives, by what waits for them
  std::map<std::string, size_t> instances_;  // what is recorded for each action
  std::map<int32_t, int32_t> groups_;
};

std::vector<RecordedStage> stages_of(const Recording& recorded, const Strategy& strategy) {
  const Strategy small = with_micro_batches(strategy, StageRecordings::recorded(strategy));
  const MessagePlan plan = message_plan_of(small);
  const std::vector<int> stages = recorded_stages(strategy, recorded.per_host).numbers;
  std::vector<RecordedStage> list;
  for (size_t i = 0; i < stages.size(); ++i) {
    const std::vector<Action>& actions = plan.actions(stages[i]);
    list.emplace_back(recorded.ranks[i], actions, stage_passes(actions, small, stages[i]),
                      plan.receives(stages[i]));
  }
  return list;
}

// Whether all passes of so many micro-batches are like recorded ones.
bool has_all_passes(const std::vector<RecordedStage>& stages, const Strategy& s, int per_host) {
  const MessagePlan plan = message_plan_of(s);
  const std::vector<size_t> places = recorded_stages(s, per_host).places;
  for (int stage = 0; stage < s.pipe; ++stage) {
    const RecordedStage& recorded = stages[places[static_cast<size_t>(stage)]];
    for (const StagePass& pass : stage_passes(plan.actions(stage), s, stage)) {
      if (!recorded.has(pass)) return false;
    }
  }
  return true;
}

}  // namespace

StageRecordings::StageRecordings(const PlanRequest& request, const Strategy& strategy)
    : strategy_(strategy), tokens_of_one_(strategy.micro_batch * sample_bytes(request)) {
  check(strategy.pipe > 1, "plan: ", strategy.text(), " has no stages to record");
  const Strategy small = with_micro_batches(strategy, recorded(strategy));
  const std::vector<int> all = stage_ranks(strategy);
  std::vector<int> ranks;
  for (const int stage : recorded_stages(strategy, request.cluster.per_host).numbers)
    ranks.push_back(all[static_cast<size_t>(stage)]);
  recorded_ = record_parts(
      strategy.ranks(),
      [&](Communicator& world) {
        run_strategy(request, small, world, [] { begin_simulated_step(); });
      },
      request.cluster, ranks);
  for (const RecordedStage& stage : stages_of(recorded_, strategy_)) {
    are_alike_ = are_alike_ && stage.repeats_by_itself();
  }
}

// So many that in their passes there are those of any number: of one chunk every kind behind every
// other, of several every change of chunks, too.
int64_t StageRecordings::recorded(const Strategy& strategy) {
  if (!frees_units(strategy)) return 3;
  return (strategy.schedule.chunks() > 1 ? 3 : 2) * strategy.pipe;
}

bool StageRecordings::has(int64_t micro_batches) const {
  const int64_t least = frees_units(strategy_) ? 2 * strategy_.pipe : recorded(strategy_);
  return are_alike_ && micro_batches >= least &&
         has_all_passes(stages_of(recorded_, strategy_),
                        with_micro_batches(strategy_, micro_batches), recorded_.per_host);
}

Recording StageRecordings::of(int64_t micro_batches) const {
  check(has(micro_batches), "plan: ", micro_batches, " micro-batches are not made of the ",
        recorded(strategy_), " recorded ones");
  const Strategy strategy = with_micro_batches(strategy_, micro_batches);
  const MessagePlan plan = message_plan_of(strategy);
  const std::vector<RecordedStage> stages = stages_of(recorded_, strategy_);
  const std::vector<int> ranks = stage_ranks(strategy);
  const RecordedStages like = recorded_stages(strategy, recorded_.per_host);
  Recording all;
  all.world_size = recorded_.world_size;
  all.per_host = recorded_.per_host;
  all.groups = recorded_.groups;
  all.labels = recorded_.labels;
  for (int stage = 0; stage < strategy.pipe; ++stage) {
    const size_t place = like.places[static_cast<size_t>(stage)];
    StageWriter writer(stages[place], all, ranks[static_cast<size_t>(stage)],
                       stage - like.numbers[place]);
    writer.write(plan, stage, strategy, (micro_batches - recorded(strategy_)) * tokens_of_one_);
  }
  return all;
}

}  // namespace hero::dist

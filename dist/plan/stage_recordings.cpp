#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <hero/core/error.h>
#include <hero/dist/parallel/messages.h>
#include <hero/dist/plan/program.h>
#include <hero/dist/plan/stage_recordings.h>
#include <hero/dist/rehearsal.h>
#include <hero/dist/rehearsal/recorder.h>

namespace hero::dist {

namespace {

constexpr int64_t kRecorded = StageRecordings::kRecorded;

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

// The action among the recorded ones that is like this one of `micro_batches`.
Action recorded_for(Action a, int64_t micro_batches) {
  if (a.micro > 0) a.micro = a.micro + 1 == micro_batches ? kRecorded - 1 : 1;
  return a;
}

// Of the recorded stages the one that is like `stage`: its place in the recording.
size_t recorded_for(int stage, int stages) {
  if (stage == 0) return 0;
  return stage + 1 == stages ? (stages > 2 ? 2 : 1) : 1;
}

std::vector<int> recorded_stages(const Strategy& s) {
  return s.pipe > 2 ? std::vector<int>{0, 1, s.pipe - 1} : std::vector<int>{0, 1};
}

// One recorded stage, by its parts: what is before all actions; of each action what is posted and
// given back before it, and itself; what is behind all actions; the optimizer.
class RecordedStage {
 public:
  RecordedStage(const RankTimeline& timeline, const std::vector<Action>& actions,
                const std::vector<std::vector<Message>>& receives)
      : timeline_(timeline) {
    check(timeline.parts.size() == 2 * actions.size() + 3, "plan: ", actions.size(),
          " actions of a stage were recorded as ", timeline.parts.size(), " parts");
    for (const TimelineEvent& event : timeline.events) {
      if (event.op == Collective::send) border_ = std::max(border_, event.bytes);
    }
    for (size_t i = 0; i < actions.size(); ++i) {
      places_[to_string(actions[i])] = 2 + 2 * i;
      size_t event = begin(1 + 2 * i);
      check(end(1 + 2 * i) - event == receives[i].size(), "plan: before ", to_string(actions[i]),
            " a stage did more than to post ", receives[i].size(), " receives");
      for (const Message& message : receives[i]) {
        receives_[to_string(message.action)] = &timeline.events[event++];
      }
      if (i == 0) continue;
      // between two actions only messages come and go
      const int64_t change = part(2 + 2 * i).live - part(1 + 2 * i).live;
      given_back_[to_string(actions[i - 1])] =
          change - border_ * static_cast<int64_t>(receives[i].size());
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
  size_t place(const Action& recorded) const { return places_.at(to_string(recorded)); }
  /// The beginning of the call that brings what an action waits for.
  const TimelineEvent& receive(const Action& recorded) const {
    return *receives_.at(to_string(recorded));
  }
  bool receives(const Action& recorded) const { return receives_.contains(to_string(recorded)); }
  /// Bytes, not above zero, that are free when what an action sent has come.
  int64_t given_back(const Action& recorded) const {
    const auto found = given_back_.find(to_string(recorded));
    return found == given_back_.end() ? 0 : found->second;
  }
  bool repeats_by_itself() const;

 private:
  const RankTimeline& timeline_;
  int64_t border_ = 0;
  std::map<std::string, size_t> places_;
  std::map<std::string, const TimelineEvent*> receives_;
  std::map<std::string, int64_t> given_back_;
};

// Whether no pass of the micro-batch between waits for a call of another pass, but for messages,
// nor another one for a call of it.
bool RecordedStage::repeats_by_itself() const {
  std::map<int64_t, size_t> begun;  // in which part
  std::set<size_t> repeated;
  for (const auto& [text, place] : places_) {
    if (text.substr(1, text.find('.') - 1) == "1") repeated.insert(place);
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
    const auto receives = plan.receives(me);
    for (size_t i = 0; i < actions.size(); ++i) {
      for (const Message& message : receives[i]) post(message, s.micro_batches);
      if (i > 0) live_ += stage_.given_back(recorded_for(actions[i - 1], s.micro_batches));
      const Action recorded = recorded_for(actions[i], s.micro_batches);
      if (stage_.receives(recorded)) {
        calls_[stage_.receive(recorded).call] = posted_.at(to_string(actions[i]));
      }
      copy(stage_.place(recorded));
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

  void post(const Message& message, int64_t micro_batches) {
    TimelineEvent event = stage_.receive(recorded_for(message.action, micro_batches));
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
  std::map<int64_t, int64_t> calls_;       // the newest call that is like a recorded one
  std::map<std::string, int64_t> posted_;  // receives, by what waits for them
  std::map<int32_t, int32_t> groups_;
};

std::vector<RecordedStage> stages_of(const Recording& recorded, const Strategy& strategy) {
  const MessagePlan plan = message_plan_of(with_micro_batches(strategy, kRecorded));
  const std::vector<int> stages = recorded_stages(strategy);
  std::vector<RecordedStage> list;
  for (size_t i = 0; i < stages.size(); ++i) {
    list.emplace_back(recorded.ranks[i], plan.actions(stages[i]), plan.receives(stages[i]));
  }
  return list;
}

}  // namespace

StageRecordings::StageRecordings(const PlanRequest& request, const Strategy& strategy)
    : strategy_(strategy), tokens_of_one_(strategy.micro_batch * request.model.block_size * 8) {
  check(strategy.pipe > 1, "plan: ", strategy.text(), " has no stages to record");
  const Strategy small = with_micro_batches(strategy, kRecorded);
  const std::vector<int> all = stage_ranks(strategy);
  std::vector<int> ranks;
  for (const int stage : recorded_stages(strategy))
    ranks.push_back(all[static_cast<size_t>(stage)]);
  recorded_ = record_parts(
      strategy.ranks(),
      [&](Communicator& world) {
        run_strategy(request, small, world, [] { begin_rehearsed_step(); });
      },
      request.cluster, ranks);
  // [note: units between passes] Where units are freed after a pass it depends on the next one
  // which of them are gathered when it begins.
  are_alike_ = strategy.rung < PlanRung::fsdp || !strategy.reshard;
  for (const RecordedStage& stage : stages_of(recorded_, strategy_)) {
    are_alike_ = are_alike_ && stage.repeats_by_itself();
  }
}

Recording StageRecordings::of(int64_t micro_batches) const {
  check(micro_batches >= kRecorded, "plan: ", micro_batches, " micro-batches are made of ",
        kRecorded, " recorded ones or more");
  const Strategy strategy = with_micro_batches(strategy_, micro_batches);
  const MessagePlan plan = message_plan_of(strategy);
  const std::vector<RecordedStage> stages = stages_of(recorded_, strategy_);
  const std::vector<int> ranks = stage_ranks(strategy);
  Recording all;
  all.world_size = recorded_.world_size;
  all.groups = recorded_.groups;
  all.labels = recorded_.labels;
  for (int stage = 0; stage < strategy.pipe; ++stage) {
    const size_t recorded = recorded_for(stage, strategy.pipe);
    StageWriter writer(stages[recorded], all, ranks[static_cast<size_t>(stage)],
                       stage - recorded_stages(strategy)[recorded]);
    writer.write(plan, stage, strategy, (micro_batches - kRecorded) * tokens_of_one_);
  }
  return all;
}

}  // namespace hero::dist

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hero/core/accelerator.h>
#include <hero/core/error.h>
#include <hero/dist/backends/local/backend.h>
#include <hero/dist/backends/local/group.h>
#include <hero/dist/backends/local/move.h>
#include <hero/dist/backends/local/world.h>
#include <hero/dist/backends/notices.h>

namespace hero::dist {
namespace {

using Clock = std::chrono::steady_clock;

class LocalPending;

// The calls that a rank has begun and not completed, in all its groups, oldest first.
struct LocalRank {
  std::shared_ptr<LocalWorld> world;
  int number = 0;
  std::vector<std::shared_ptr<LocalPending>> begun;

  /// Returns when nobody reads from a call of this rank; for a world that has failed.
  void wait_for_readers() const;
  /// When the link is done with the first of the calls that need no more than that: another call
  /// may begin after it, which no event would tell. Nothing where there is none.
  std::optional<Clock::time_point> next_due() const;
  void forget_complete();
};

class LocalPending : public Pending, public std::enable_shared_from_this<LocalPending> {
 public:
  LocalPending(std::shared_ptr<LocalRank> rank, std::shared_ptr<LocalGroup> group, int me,
               uint64_t sequence)
      : rank_(std::move(rank)), group_(std::move(group)), me_(me), sequence_(sequence) {}

  void begin(LocalGroup::LaneKey lane, Call call, core::Array input, core::Array output) {
    const bool message = lane.first >= 0;
    if (message) {
      parties_ = {group_->world_ranks[static_cast<size_t>(lane.first)],
                  group_->world_ranks[static_cast<size_t>(lane.second)]};
      me_ = call.op == Collective::send ? 0 : 1;
    } else {
      parties_ = group_->world_ranks;
    }
    if (call.device.type == DeviceType::cuda && call.moves) {
      exchange_ = &core::accelerator(name(call.op), call.device).exchange(call.device.index);
    }
    lane_ = lane;
    after_ = std::exchange(call.after, nullptr);
    call_ = std::move(call);
    input_ = std::move(input);
    output_ = std::move(output);
    round_ = group_->round(lane, sequence_, parties_.size());
    rank_->begun.push_back(shared_from_this());
    arrived();
  }

  bool is_complete() const { return complete_; }
  bool complete() const override { return complete_ || (!call_.moves && all_finished()); }

  bool in_vain(Clock::time_point since) override {
    if (complete()) return false;
    if (!world().failed()) find_failure();
    if (!world().failed()) give_up_after(since);
    return world().failed() && !complete();
  }

  bool test() override {
    if (complete_ || complete_now()) {
      follow(LocalRound::kFinished);
      rank_->forget_complete();
    } else {
      go_on_with_all();
    }
    return complete_;
  }

  void wait() override {
    int patience = 0;
    const Clock::time_point start = Clock::now();
    if (complete_ || complete_now()) {
      follow(LocalRound::kFinished);
      rank_->forget_complete();
    }
    while (!complete_) {
      const uint64_t seen = world().events(rank_->number);
      go_on_with_all();
      if (complete_) return;
      if (const auto due = rank_->next_due()) {
        world().wait_until(*due, rank_->number, seen);
        continue;
      }
      give_up_after(start);
      world().wait_for_event(rank_->number, seen, patience, [&] { return waiting_text(); });
    }
  }

  // True when complete. Throws where the ranks disagree or one of them will never come.
  bool go_on() {
    if (complete_ || complete_now()) return true;
    if (world().failed()) world().raise(rank_->number, where());
    if (!arrived()) return false;
    if (stage_ == LocalRound::kArrived) {
      if (round_->arrived.load() < round_->parties()) {
        find_failure();
        if (world().failed()) world().raise(rank_->number, where());
        return false;
      }
      find_failure();
      if (world().failed()) world().raise(rank_->number, where());
      const Reading reading(*round_, world());
      if (!reading.allowed()) return false;
      follow(LocalRound::kArrived);
      LocalMove(*round_, call_, me_, exchange_).pull();
      advance(call_.op == Collective::all_reduce ? LocalRound::kReduced : LocalRound::kFinished);
    }
    if (stage_ == LocalRound::kReduced) {
      if (round_->reduced.load() < round_->parties()) return false;
      const Reading reading(*round_, world());
      if (!reading.allowed()) return false;
      follow(LocalRound::kReduced);
      LocalMove(*round_, call_, me_, exchange_).pull_reduced();
      advance(LocalRound::kFinished);
    }
    return complete_now();
  }

  std::optional<Clock::time_point> due() const {
    if (!all_finished()) return std::nullopt;
    return round_->due;
  }

  void wait_for_readers() const {
    while (round_->readers.load() > 0) std::this_thread::yield();
    follow(LocalRound::kReduced);
    follow(LocalRound::kFinished);
  }

 private:
  LocalWorld& world() const { return *rank_->world; }
  std::string where() const { return describe(call_, sequence_, group_->axis); }
  int parties() const { return round_->parties(); }

  // Whether this rank has come to the round; it does when the call before, if any, is complete.
  bool arrived() {
    if (stage_ != LocalRound::kAbsent) return true;
    if (after_ && !after_->complete()) return false;
    after_ = nullptr;
    if (exchange_ != nullptr) call_.ready = exchange_->record_event();
    stage_ = LocalRound::kArrived;
    group_->arrive(lane_, *round_, parties_, static_cast<size_t>(me_), call_, world().link());
    if (round_->arrived.load() == round_->parties()) world().notify(parties_);
    return true;
  }

  // On a device: the own stream goes on after the events of all who have come to the stage.
  void follow(LocalRound::Stage stage) const {
    if (exchange_ == nullptr) return;
    for (size_t i = 0; i < parties_.size(); ++i) {
      if (round_->stages[i].load() < stage) continue;
      const std::shared_ptr<core::DeviceEvent>& event = round_->event(i, stage);
      if (event) event->join();
    }
  }

  // Nobody reads any more, and only the link, where there is one, needs its time. What moves
  // nothing is finished as soon as all have come and agree, whatever a rank does then.
  bool all_finished() const {
    if (!call_.moves) return round_->agreed(parties_);
    return stage_ == LocalRound::kFinished && round_->finished.load() == round_->parties();
  }

  // A call that all have finished is complete, whatever has failed since.
  bool complete_now() {
    if (!all_finished()) return false;
    if (round_->due != Clock::time_point{} && Clock::now() < round_->due) return false;
    follow(LocalRound::kFinished);
    complete_ = true;
    input_ = {};  // a storage must not outlive the call because a handle to it does
    output_ = {};
    return true;
  }

  void go_on_with_all() {
    try {
      for (const auto& pending : rank_->begun) pending->go_on();
      // of a run that has failed the rank has let go of its calls, and this handle was kept
      if (world().failed()) go_on();
    } catch (...) {
      rank_->wait_for_readers();
      throw;
    }
    rank_->forget_complete();
  }

  void advance(LocalRound::Stage stage) {
    stage_ = stage;
    if (exchange_ != nullptr)
      round_->event(static_cast<size_t>(me_), stage) = exchange_->record_event();
    round_->stages[static_cast<size_t>(me_)].store(stage);
    std::atomic<int>& count = stage == LocalRound::kFinished ? round_->finished : round_->reduced;
    if (count.fetch_add(1) + 1 == round_->parties()) world().notify(parties_);  // who wait for all
  }

  std::vector<int> absent() const {
    std::vector<int> ranks;
    for (size_t i = 0; i < parties_.size(); ++i) {
      if (round_->stages[i].load() == LocalRound::kAbsent) ranks.push_back(parties_[i]);
    }
    return ranks;
  }

  // Fails the world where the ranks differ, or one of those that have not come never will.
  void find_failure() const {
    if (round_->arrived.load() == round_->parties()) {
      if (!round_->agreed(parties_)) {
        world().fail_all(describe(round_->calls.front(), sequence_, group_->axis) + ": " +
                         round_->disagreement +
                         "; every rank must make the same calls in the same order");
      }
      return;
    }
    if (!world().any_finished()) return;
    for (const int other : absent()) {
      // It may have arrived and then ended between the two looks.
      if (!world().finished(other) || !still_absent(other)) continue;
      world().fail_all(where() + ": rank " + std::to_string(other) +
                       " has finished without this call; every rank must make the same calls in "
                       "the same order");
    }
  }

  bool still_absent(int rank) const {
    const std::vector<int> now = absent();
    return std::find(now.begin(), now.end(), rank) != now.end();
  }

  void give_up_after(Clock::time_point start) const {
    const std::chrono::duration<double> waited = Clock::now() - start;
    const Timeouts& timeouts = world().timeouts();
    if (waited.count() < timeouts.of(call_.phase) || world().failed()) return;
    tell_late();
    world().fail_all(where() + ": " + timeouts.text(call_.phase) + ": " + missing_text() +
                     timeout_advice(call_.phase));
  }

  // "rank 2 did not arrive (it waits in ...)"
  std::string missing_text() const {
    std::vector<int> missing = absent();
    const char* what = " did not arrive";
    if (missing.empty()) {
      what = " did not complete it";
      for (size_t i = 0; i < parties_.size(); ++i) {
        if (round_->stages[i].load() != LocalRound::kFinished) missing.push_back(parties_[i]);
      }
    }
    std::string text = rank_list(missing) + what;
    for (const int rank : missing) {
      const std::string elsewhere = world().waiting(rank);
      if (!elsewhere.empty()) {
        return text + " (rank " + std::to_string(rank) + " waits in " + elsewhere + ")";
      }
    }
    return text;
  }

  std::string waiting_text() const {
    const std::vector<int> missing = absent();
    return where() + (missing.empty() ? "" : " for " + rank_list(missing));
  }

  std::shared_ptr<LocalRank> rank_;
  std::shared_ptr<LocalGroup> group_;
  std::shared_ptr<LocalRound> round_;
  std::vector<int> parties_;  // world ranks
  int me_;                    // among the parties
  uint64_t sequence_;
  Call call_;
  core::Exchange* exchange_ = nullptr;  // of the arrays' device; null: the host
  core::Array input_, output_;
  LocalGroup::LaneKey lane_;
  std::shared_ptr<Pending> after_;
  LocalRound::Stage stage_ = LocalRound::kAbsent;
  std::atomic<bool> complete_ = false;
};

std::optional<Clock::time_point> LocalRank::next_due() const {
  std::optional<Clock::time_point> first;
  for (const auto& pending : begun) {
    const auto due = pending->due();
    if (due && (!first || *due < *first)) first = due;
  }
  return first;
}

void LocalRank::forget_complete() {
  std::erase_if(begun, [](const auto& pending) { return pending->is_complete(); });
}

void LocalRank::wait_for_readers() const {
  for (const auto& pending : begun) pending->wait_for_readers();
}

class LocalBackend : public Backend {
 public:
  LocalBackend(std::shared_ptr<LocalRank> rank, std::shared_ptr<LocalGroup> group, int me)
      : rank_(std::move(rank)), group_(std::move(group)), me_(me) {}

  BackendKind kind() const override { return BackendKind::local; }
  int rank() const override { return me_; }
  int size() const override { return static_cast<int>(group_->world_ranks.size()); }
  std::span<const int> world_ranks() const override { return group_->world_ranks; }

  std::shared_ptr<Pending> post(Call call, core::Array input, core::Array output) override {
    LocalGroup::LaneKey lane{-1, -1};
    if (call.op == Collective::send) lane = {me_, call.root};
    if (call.op == Collective::recv) lane = {call.root, me_};
    // of a lane to itself a rank is at both ends
    uint64_t& next = (call.op == Collective::recv ? next_recv_ : next_)[lane];
    const uint64_t sequence = next;
    if (rank_->world->failed()) {
      rank_->wait_for_readers();
      rank_->world->raise(rank_->number, describe(call, sequence, group_->axis));
    }
    if (size() > 1 && rank_->world->finished(rank_->number)) {
      fail(describe(call, sequence, group_->axis), ": the run has ended");
    }
    auto pending = std::make_shared<LocalPending>(rank_, group_, me_, sequence);
    pending->begin(lane, std::move(call), std::move(input), std::move(output));
    ++next;
    return pending;
  }

  std::shared_ptr<Backend> group(std::span<const int> members, const std::string& axis) override {
    std::vector<int> world_ranks;
    int me = 0;
    for (const int member : members) {
      if (member == me_) me = static_cast<int>(world_ranks.size());
      world_ranks.push_back(group_->world_ranks[static_cast<size_t>(member)]);
    }
    // The agreement was a collective of this group, so its number tells groups apart.
    const LocalWorld::GroupKey key{{group_.get(), next_[{-1, -1}]}, members.front()};
    return std::make_shared<LocalBackend>(rank_, rank_->world->group(key, world_ranks, axis), me);
  }

  bool has_failed() const override { return rank_->world->failed(); }

  void drain() override {
    while (!rank_->begun.empty()) {
      const std::shared_ptr<LocalPending> oldest = rank_->begun.front();
      oldest->wait();
      if (!rank_->begun.empty() && rank_->begun.front() == oldest) {
        rank_->begun.erase(rank_->begun.begin());
      }
    }
  }

  void abandon() override {
    rank_->wait_for_readers();
    rank_->begun.clear();
  }

 private:
  std::shared_ptr<LocalRank> rank_;
  std::shared_ptr<LocalGroup> group_;
  int me_;
  std::map<LocalGroup::LaneKey, uint64_t> next_, next_recv_;
};

}  // namespace

std::shared_ptr<Backend> make_local_backend(const std::shared_ptr<LocalWorld>& world, int rank) {
  std::vector<int> everyone;
  for (int i = 0; i < world->size(); ++i) everyone.push_back(i);
  const auto group = world->group({{world.get(), 0}, 0}, everyone, "world");
  auto state = std::make_shared<LocalRank>();
  state->world = world;
  state->number = rank;
  return std::make_shared<LocalBackend>(std::move(state), group, rank);
}

}  // namespace hero::dist

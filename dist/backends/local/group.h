#pragma once
// LocalGroup: a group of the local backend, and LocalRound, one call of several ranks.
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <hero/core/exchange.h>
#include <hero/dist/backends/local/world.h>
#include <hero/dist/backends/throttled_link.h>

namespace hero::dist {

/// One collective or message; its state is shared by all ranks (parties) that take part.
struct LocalRound {
  explicit LocalRound(size_t parties)
      : calls(parties), stages(parties), reduced_at(parties), finished_at(parties), readers(0) {}

  /// The progress of one party. `reduced`: the other parties may read its part of an all_reduce.
  /// `finished`: it reads no other party's memory any more.
  enum Stage : int { kAbsent, kArrived, kReduced, kFinished };

  int parties() const { return static_cast<int>(calls.size()); }

  /// On a device: the event in party i's stream when it reached a stage; null for a stage that it
  /// skipped.
  std::shared_ptr<core::DeviceEvent>& event(size_t i, Stage stage) {
    if (stage == kArrived) return calls[i].ready;
    return stage == kReduced ? reduced_at[i] : finished_at[i];
  }

  /// Whether all parties have arrived with the same statement. Any thread may ask; `ranks` are the
  /// parties' world ranks.
  bool agreed(std::span<const int> ranks);

  std::vector<Call> calls;  // calls[i] is written before party i arrives
  std::vector<std::atomic<int>> stages;
  std::vector<std::shared_ptr<core::DeviceEvent>> reduced_at, finished_at;  // [i]: before its stage
  std::atomic<int> arrived{0};
  std::atomic<int> reduced{0};
  std::atomic<int> finished{0};
  std::atomic<int> readers;  // number of parties that are reading other parties' memory
  std::once_flag compared;
  std::string disagreement;  // under `compared`
  // On a throttled link; written before the last party arrives.
  ThrottledLink::Clock::time_point due{};
};

// [note: who reads whose memory, and until when] A rank publishes pointers, and the other ranks
// read. No rank reads before all have arrived and agree, and a call is complete for a rank only
// when no rank can read its buffers any more. When the world fails, no rank begins to read, and a
// rank that throws first waits for ranks that are still reading in one of its calls: so also after
// an error no other rank uses its arrays. On a device the same holds for the ranks' streams: a
// stream that reads begins after the events that the others recorded when they published, and a
// rank's stream continues after the events that they recorded when they had read. The host only
// queues these waits.
class Reading {
 public:
  Reading(LocalRound& round, const LocalWorld& world) : round_(round) {
    round_.readers.fetch_add(1);
    allowed_ = !world.failed();
  }
  ~Reading() { round_.readers.fetch_sub(1); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  bool allowed() const { return allowed_; }

 private:
  LocalRound& round_;
  bool allowed_ = false;
};

/// The state that the members of a group share.
struct LocalGroup {
  LocalGroup(std::vector<int> members, std::string axis_name)
      : world_ranks(std::move(members)), axis(std::move(axis_name)) {}

  /// The rounds of one sequence of calls that not all parties have reached.
  struct Lane {
    uint64_t first = 0;
    std::deque<std::shared_ptr<LocalRound>> open;
  };
  /// Collectives have one lane, {-1, -1}; messages one for each (sender, receiver).
  using LaneKey = std::pair<int, int>;

  /// Round number `sequence` of a lane, with this number of parties.
  std::shared_ptr<LocalRound> round(LaneKey key, uint64_t sequence, size_t parties);
  /// Party `me` of `parties` (world ranks) arrives at a round of the lane with its call.
  void arrive(LaneKey key, LocalRound& round, std::span<const int> parties, size_t me, Call call,
              ThrottledLink& link);

  const std::vector<int> world_ranks;
  const std::string axis;
  std::mutex mutex;
  std::map<LaneKey, Lane> lanes;
};

}  // namespace hero::dist

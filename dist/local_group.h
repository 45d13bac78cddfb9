#pragma once
// A group of the local engine and the rounds in which its ranks meet.
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <hero/dist/call.h>

namespace hero::dist {

/// One collective, or one message, as all who take part in it see it.
struct LocalRound {
  explicit LocalRound(size_t parties) : calls(parties), stages(parties), readers(0) {}

  /// How far one party is. `reduced`: its part of an all_reduce may be read. `finished`: it reads
  /// nobody's memory any more.
  enum Stage : int { kAbsent, kArrived, kReduced, kFinished };

  int parties() const { return static_cast<int>(calls.size()); }

  std::vector<Call> calls;  // calls[i] is written before party i arrives
  std::vector<std::atomic<int>> stages;
  std::atomic<int> arrived{0};
  std::atomic<int> reduced{0};
  std::atomic<int> finished{0};
  std::atomic<int> readers;  // parties that read others' memory at this moment
  std::once_flag compared;
  std::string disagreement;  // under `compared`
};

/// What the members of a group share.
struct LocalGroup {
  LocalGroup(std::vector<int> members, std::string axis_name)
      : world_ranks(std::move(members)), axis(std::move(axis_name)) {}

  /// The rounds of one kind of call that not all have reached.
  struct Lane {
    uint64_t first = 0;
    std::deque<std::shared_ptr<LocalRound>> open;
  };
  /// Collectives have one lane, {-1, -1}; messages one for each (sender, receiver).
  using LaneKey = std::pair<int, int>;

  /// Party `me` arrives at round `sequence` of a lane with its call.
  std::shared_ptr<LocalRound> arrive(LaneKey key, uint64_t sequence, size_t parties, size_t me,
                                     Call call);

  const std::vector<int> world_ranks;
  const std::string axis;
  std::mutex mutex;
  std::map<LaneKey, Lane> lanes;
};

}  // namespace hero::dist

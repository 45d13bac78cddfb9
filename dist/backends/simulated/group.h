#pragma once
// What simulated ranks, which run one after the other, keep for those that run later.
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <hero/dist/backends/call.h>

namespace hero::dist {

/// The calls of a group: its collectives as the first rank that ran stated them, the counts of each
/// all_to_all until all ranks have stated theirs, and messages whose other end is yet to come.
/// Ranks are numbers in the group; each function is told by which numbers errors know them.
class SimulatedGroup {
 public:
  SimulatedGroup(std::vector<int> ranks, std::string name)
      : world_ranks(std::move(ranks)), axis(std::move(name)) {}

  /// Rank `me` takes part from here on; the first to do so is the one that others are compared
  /// with.
  void join(int me) {
    if (first_rank_ < 0) first_rank_ = me;
  }
  /// Rank `me` makes a collective as its call number `place`. An Error where an earlier rank made
  /// another one or none there.
  void collective(const Call& call, uint64_t place, int me);
  /// Rank `me` sends or receives. Messages of a lane (from, to) are matched in order: an Error
  /// where the two ends differ. `other_ended`: the other rank has run already.
  void message(const Call& call, int me, bool other_ended);
  /// Rank `me` ends after `made` collectives; an Error where others made more, or sent to it or
  /// wait for it in vain.
  void end(int me, uint64_t made) const;

  const std::vector<int> world_ranks;
  const std::string axis;

 private:
  struct Counts {
    int rank;
    ChunkCounts send, recv;
  };
  struct Message {
    Call call;
    uint64_t number;  // of its lane
  };
  using Lane = std::pair<int, int>;  // from, to

  int world_rank(int rank) const { return world_ranks[static_cast<size_t>(rank)]; }
  void compare(const Call& call, uint64_t place, int me) const;
  void compare_counts(const Call& call, uint64_t place, int me);
  [[noreturn]] void fail_absent(const Call& call, uint64_t number, int made_by, int absent) const;

  int first_rank_ = -1;
  std::vector<Call> calls_;
  std::map<uint64_t, std::vector<Counts>> counts_;                 // of all_to_all, by place
  std::map<std::tuple<int, int, int>, std::deque<Message>> open_;  // by awaited rank, from, to
  std::map<Lane, std::array<uint64_t, 2>> numbers_;  // messages sent and received on a lane
};

/// All groups of simulated ranks, and who has run.
class SimulatedWorld {
 public:
  explicit SimulatedWorld(int size);
  const std::shared_ptr<SimulatedGroup>& everyone() const { return everyone_; }
  /// The group that members of `parent` form after `made` calls there.
  std::shared_ptr<SimulatedGroup> group(const SimulatedGroup& parent, uint64_t made,
                                        const std::vector<int>& world_ranks,
                                        const std::string& axis);
  /// A rank of the world has ended, and whether one has.
  void end(int rank) { ended_.insert(rank); }
  bool ended(int rank) const { return ended_.count(rank) > 0; }

 private:
  using Key = std::tuple<const SimulatedGroup*, uint64_t, std::vector<int>>;
  std::shared_ptr<SimulatedGroup> everyone_;
  std::map<Key, std::shared_ptr<SimulatedGroup>> groups_;
  std::set<int> ended_;
};

}  // namespace hero::dist

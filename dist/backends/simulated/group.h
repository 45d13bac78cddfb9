#pragma once
// SimulatedGroup: the calls of simulated ranks, which run one after the other, kept for ranks that
// run later.
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
/// Ranks are numbered in the group; each function also gets the numbers by which errors name them.
class SimulatedGroup {
 public:
  /// `host_ranks` as Backend::ranks_of_host() returns it.
  SimulatedGroup(std::vector<int> ranks, std::string name, int host_ranks)
      : world_ranks(std::move(ranks)), axis(std::move(name)), ranks_of_host(host_ranks) {}

  /// Rank `me` takes part from now on. Other ranks are compared with the first one that joined.
  void join(int me) {
    if (first_rank_ < 0) first_rank_ = me;
  }
  /// Rank `me` makes a collective as its call number `place`. Throws an Error if an earlier rank
  /// made another call, or none, at that place.
  void collective(const Call& call, uint64_t place, int me);
  /// Rank `me` sends or receives. Messages of a lane (from, to) are matched in order; throws an
  /// Error if the two ends differ. `other_ended`: the other rank has run already.
  void message(const Call& call, int me, bool other_ended);
  /// Rank `me` ends after `made` collectives. Throws an Error if others made more, or have a send
  /// to it or a recv from it without a match.
  void end(int me, uint64_t made) const;

  const std::vector<int> world_ranks;
  const std::string axis;
  const int ranks_of_host;

 private:
  struct Counts {
    int rank;
    ChunkCounts send, recv;
  };
  struct Message {
    Call call;
    uint64_t number;  // its number in its lane
  };
  using Lane = std::pair<int, int>;  // from, to

  int world_rank(int rank) const { return world_ranks[static_cast<size_t>(rank)]; }
  void compare(const Call& call, uint64_t place, int me) const;
  void compare_counts(const Call& call, uint64_t place, int me);
  [[noreturn]] void fail_absent(const Call& call, uint64_t number, int made_by, int absent) const;

  int first_rank_ = -1;
  std::vector<Call> calls_;
  std::map<uint64_t, std::vector<Counts>> counts_;  // counts of each all_to_all, by its number
  // Unmatched messages, by (awaited rank, from, to).
  std::map<std::tuple<int, int, int>, std::deque<Message>> open_;
  std::map<Lane, std::array<uint64_t, 2>> numbers_;  // messages sent and received on a lane
};

/// All groups of simulated ranks, and which ranks have run.
class SimulatedWorld {
 public:
  /// `per_host` as for make_simulated_world().
  SimulatedWorld(int size, int per_host);
  const std::shared_ptr<SimulatedGroup>& everyone() const { return everyone_; }
  /// The group that members of `parent` form after `made` calls there.
  std::shared_ptr<SimulatedGroup> group(const SimulatedGroup& parent, uint64_t made,
                                        const std::vector<int>& world_ranks,
                                        const std::string& axis);
  /// Records that a rank of the world has ended; and whether one has.
  void end(int rank) { ended_.insert(rank); }
  bool ended(int rank) const { return ended_.count(rank) > 0; }

 private:
  using Key = std::tuple<const SimulatedGroup*, uint64_t, std::vector<int>>;
  std::shared_ptr<SimulatedGroup> make(const std::vector<int>& world_ranks,
                                       const std::string& axis) const;

  const int per_host_;
  std::shared_ptr<SimulatedGroup> everyone_;
  std::map<Key, std::shared_ptr<SimulatedGroup>> groups_;
  std::set<int> ended_;
};

}  // namespace hero::dist

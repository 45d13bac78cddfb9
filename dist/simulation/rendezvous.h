#pragma once
// Which calls of recorded ranks meet: the n-th collective that each rank of a group begins there,
// and the n-th send of one rank to another with the n-th receive.
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <hero/dist/simulation/timeline.h>

namespace hero::dist {

/// A call that ranks meet in: a collective of a group, or a message; or a rank's own transfer, in
/// which it meets nobody.
struct Rendezvous {
  Collective op = Collective::barrier;
  int group = -1;
  size_t expected = 0;                                           ///< ranks that ran and take part
  std::vector<std::pair<size_t, const TimelineEvent*>> arrived;  ///< rank's place, its beginning
  std::vector<std::pair<size_t, double>> waiting;                ///< rank's place, since when
  std::vector<std::pair<size_t, const TimelineEvent*>> held;  ///< begin after this one is complete
  bool known = false;                                         ///< all have come
  double complete = 0.0;  ///< seconds since the step began, once that is known
};

/// Ranks are known by their places in Recording::ranks. The recording must outlive it.
class AllRendezvous {
 public:
  explicit AllRendezvous(const Recording& recording);

  /// The rendezvous of a call that a rank begins now. An Error where others called something else.
  size_t meet(size_t rank, const TimelineEvent& begin);
  /// That of a transfer which begins now and is complete at a time.
  size_t alone(double complete);
  /// References hold until the next meet() or alone().
  Rendezvous& operator[](size_t rendezvous) { return all_[rendezvous]; }
  const Rendezvous& operator[](size_t rendezvous) const { return all_[rendezvous]; }

 private:
  // One rank's end of what its calls meet in: a group's collectives, or the messages of a lane.
  struct Way {
    int group, peer;  // peer -1: collectives
    bool sends;
    size_t lane;
    size_t calls = 0;  // that the rank has begun there: its n-th one is the n-th rendezvous
  };

  // The all_rendezvous of one group's collectives, or of the messages from one rank to another, in
  // order.
  struct Lane {
    size_t expected;  // ranks that ran and take part
    std::vector<size_t> all_rendezvous;
  };

  Way& way(size_t rank, const TimelineEvent& begin);
  const std::vector<int>& members(const TimelineEvent& call) const;

  const Recording& recording_;
  std::map<int, size_t> places_;        // of ranks that ran
  std::vector<size_t> played_;          // of each group, how many ran
  std::vector<std::vector<Way>> ways_;  // of each rank, a handful
  std::vector<Lane> lanes_;
  std::map<std::pair<int, std::pair<int, int>>, size_t> lane_of_;  // by group, sender, receiver
  std::vector<Rendezvous> all_;
};

}  // namespace hero::dist

#pragma once
// Matches the calls of recorded ranks: the n-th collectives of all ranks of a group belong
// together, and so do the n-th send from one rank to another and its n-th receive.
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <hero/dist/simulation/timeline.h>

namespace hero::dist {

/// One collective of a group, or one message, with all ranks that take part; or a transfer, which
/// has only one rank.
struct Rendezvous {
  Collective op = Collective::barrier;
  int group = -1;
  size_t expected = 0;  ///< number of recorded ranks that take part
  std::vector<std::pair<size_t, const TimelineEvent*>> arrived;  ///< index of the rank, its event
  std::vector<std::pair<size_t, double>> waiting;  ///< index of the rank, the time since it waits
  /// Calls that begin when this one is complete.
  std::vector<std::pair<size_t, const TimelineEvent*>> held;
  bool known = false;     ///< all ranks have arrived
  double complete = 0.0;  ///< if known: seconds since the step began
};

/// All rendezvous of a recording. Ranks are given by their index in Recording::ranks. The recording
/// must outlive the object.
class AllRendezvous {
 public:
  explicit AllRendezvous(const Recording& recording);

  /// The rendezvous of the call that a rank begins. Throws an Error if other ranks made a different
  /// call.
  size_t meet(size_t rank, const TimelineEvent& begin);
  /// Makes a rendezvous for a transfer that will be complete at this time.
  size_t alone(double complete);
  /// References are valid until the next meet() or alone().
  Rendezvous& operator[](size_t rendezvous) { return all_[rendezvous]; }
  const Rendezvous& operator[](size_t rendezvous) const { return all_[rendezvous]; }

 private:
  // One rank's position in a lane: its collectives of a group, or its messages to or from a peer.
  struct Way {
    int group, peer;  // peer -1: collectives
    bool sends;
    size_t lane;
    size_t calls = 0;  // number of calls that the rank has begun there
  };

  // The rendezvous of one group's collectives, or of the messages from one rank to another, in
  // order.
  struct Lane {
    size_t expected;  // number of recorded ranks that take part
    std::vector<size_t> all_rendezvous;
  };

  Way& way(size_t rank, const TimelineEvent& begin);
  const std::vector<int>& members(const TimelineEvent& call) const;

  const Recording& recording_;
  std::map<int, size_t> places_;        // index of each recorded rank, by its world rank
  std::vector<size_t> played_;          // number of recorded ranks of each group
  std::vector<std::vector<Way>> ways_;  // the few ways of each rank
  std::vector<Lane> lanes_;
  std::map<std::pair<int, std::pair<int, int>>, size_t> lane_of_;  // by group, sender, receiver
  std::vector<Rendezvous> all_;
};

}  // namespace hero::dist

#pragma once
// Recordings made by hand.
#include <string>
#include <utility>
#include <vector>

#include <hero/dist/simulation.h>

namespace hero_test {

using hero::dist::Collective;
using hero::dist::Recording;
using hero::dist::TimelineEvent;

/// Hosts of four ranks, links of 100 bytes per second inside and 10 outside, no latency.
inline hero::dist::Cluster plain_cluster() {
  hero::dist::Cluster cluster;
  cluster.per_host = 4;
  cluster.inside = {0.0, 100.0};
  cluster.outside = {0.0, 10.0};
  return cluster;
}

/// A world of `size` ranks on the hosts of plain_cluster() whose group 0 is all of them; ranks do
/// what they are told.
class HandMade {
 public:
  explicit HandMade(int size) {
    recording.world_size = size;
    recording.per_host = plain_cluster().per_host;
    recording.groups.push_back({"world", {}});
    for (int rank = 0; rank < size; ++rank) {
      recording.groups[0].ranks.push_back(rank);
      recording.ranks.emplace_back().rank = rank;
    }
    calls_.resize(static_cast<size_t>(size));
  }

  /// A group of its own; its number.
  int group(std::vector<int> ranks) {
    recording.groups.push_back({"group", std::move(ranks)});
    return static_cast<int>(recording.groups.size()) - 1;
  }
  void compute(int rank, double seconds, double recomputed = 0.0) {
    TimelineEvent& event = add(rank, TimelineEvent::Kind::compute);
    event.seconds = event.peak_seconds = seconds;
    event.recomputed_seconds = recomputed;
  }
  /// Begins a call; its number.
  int64_t begin(int rank, Collective op, int64_t bytes, int group = 0, int peer = -1,
                int64_t after = -1) {
    TimelineEvent& event = add(rank, TimelineEvent::Kind::begin);
    event.op = op;
    event.bytes = bytes;
    event.group = group;
    event.peer = peer;
    event.after = after;
    return event.call = calls_[static_cast<size_t>(rank)]++;
  }
  /// Begins a reduction in two levels, of the world on its hosts; its number.
  int64_t begin_in_levels(int rank, Collective op, int64_t bytes_within, int64_t bytes_across) {
    const int64_t call = begin(rank, op, bytes_within + bytes_across);
    TimelineEvent& event = recording.ranks[static_cast<size_t>(rank)].events.back();
    event.ranks_of_host = recording.per_host;
    event.bytes_across = bytes_across;
    return call;
  }
  /// Begins a transfer; its number.
  int64_t move(int rank, hero::dist::Transfer transfer, int64_t bytes) {
    TimelineEvent& event = add(rank, TimelineEvent::Kind::move);
    event.transfer = transfer;
    event.bytes = bytes;
    return event.call = calls_[static_cast<size_t>(rank)]++;
  }
  void wait(int rank, int64_t call) { add(rank, TimelineEvent::Kind::wait).call = call; }

  Recording recording;

 private:
  TimelineEvent& add(int rank, TimelineEvent::Kind kind) {
    TimelineEvent& event = recording.ranks[static_cast<size_t>(rank)].events.emplace_back();
    event.kind = kind;
    return event;
  }
  std::vector<int64_t> calls_;
};

}  // namespace hero_test

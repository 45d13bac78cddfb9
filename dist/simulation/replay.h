#pragma once
// Replays a recording on a cluster, as a discrete-event simulation of computing, waiting and ports.
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <hero/dist/simulation/cluster.h>
#include <hero/dist/simulation/timeline.h>

namespace hero::dist {

/// What a rank did from `begin` to `end`, in seconds since the step began.
struct ReplaySpan {
  enum class Track : uint8_t { compute, wait, inside, outside, to_device, to_host, disk };
  Track track = Track::compute;
  Collective op = Collective::barrier;    ///< the operation, of a call or of waiting for one
  std::optional<Transfer> transfer = {};  ///< kind of transfer, of one or of waiting for one
  int32_t label = -1;                     ///< of Simulation::labels
  double begin = 0.0, end = 0.0;
  int64_t bytes = 0;    ///< bytes sent; of compute: bytes of memory held at its end
  int64_t on_host = 0;  ///< of compute: bytes of host memory held at its end
};

/// How one rank spent the step, in seconds. In the times other than `compute` it was idle.
struct ReplayRank {
  int rank = 0;
  double compute = 0.0;
  double collectives = 0.0;  ///< waiting for collectives: communication that is not overlapped
  /// Waiting for messages: in a pipeline, bubble and transfers between stages.
  double messages = 0.0;
  double transfers = 0.0;       ///< waiting for transfers of offload
  double after_end = 0.0;       ///< from this rank's end to that of the last rank
  double peak_compute = 0.0;    ///< time of its matrix products and attention at peak flops
  double peak_recompute = 0.0;  ///< part of `peak_compute` that checkpoint() recomputes
  int64_t flops = 0;
  int64_t sent_inside = 0, sent_outside = 0;       ///< bytes
  std::array<int64_t, kMemoryTagCount> peak = {};  ///< peak bytes of memory by tag
  int64_t peak_total = 0;
  std::array<int64_t, kMemoryTagCount> host_peak = {};  ///< if the host has memory of its own
  int64_t host_peak_total = 0;
  int64_t disk_peak = 0;                           ///< peak bytes of slots in files
  std::array<int64_t, kTransferCount> moved = {};  ///< bytes of each kind of transfer
  std::vector<ReplaySpan> spans;
};

/// The waits of all ranks for calls of one operation and unit.
struct ReplayCall {
  Collective op = Collective::barrier;
  int32_t label = -1;    ///< of Simulation::labels: the unit
  int64_t waits = 0;     ///< number of waits, of all recorded ranks
  double seconds = 0.0;  ///< mean over the recorded ranks
};

/// A message from one rank to another.
struct ReplayMessage {
  int from = 0, to = 0;  ///< ranks of the world
  int32_t label = -1;    ///< of Simulation::labels
  bool outside = false;  ///< true: it takes the sender's port to other hosts
  double begin = 0.0;    ///< time when its first byte leaves
  double end = 0.0;      ///< time when it is complete
};

/// The result of a replay: one step on a cluster. Fractions are means over the recorded ranks.
struct Simulation {
  int world_size = 0;
  double seconds = 0.0;    ///< from the first rank's beginning to the last one's end
  double bubble = 0.0;     ///< fraction of the step spent in ReplayRank::messages and after_end
  double exposed = 0.0;    ///< fraction of the step spent in ReplayRank::collectives
  double transfers = 0.0;  ///< fraction of the step spent in ReplayRank::transfers
  /// Model flops utilisation: the time that the model's products and attention, forward and
  /// backward, take at the devices' peak, divided by the time of the step, without recomputation by
  /// checkpoint(). Causal attention counts only the pairs that are not masked, while the formula of
  /// PaLM (Chowdhery et al., arXiv 2204.02311, appendix B) counts all pairs.
  double mfu = 0.0;
  /// Hardware flops utilisation: the same including recomputation by checkpoint(); equal to `mfu`
  /// if nothing is recomputed.
  double hfu = 0.0;
  /// Of all ranks of the world, assuming the others are like the recorded ones.
  double flops = 0.0;
  int64_t peak_bytes = 0;  ///< the most memory that a rank held
  int peak_rank = 0;       ///< the rank that held it
  /// Bytes sent along each axis by the rank that sends most.
  std::map<std::string, int64_t> bytes_by_axis;
  std::vector<ReplayCall> waits;  ///< the longest first
  std::vector<ReplayRank> ranks;
  std::vector<ReplayMessage> messages;  ///< messages that are not empty; only if spans are kept
  std::vector<std::string> labels;

  /// A summary for people, as lines of text.
  std::string table() const;
};

/// Replays a recording on a cluster. A collective of g ranks starts when all its recorded ranks
/// have begun it and the call that it is `after` is complete; then each rank's bytes leave through
/// its port, one call after the other, at the port's rate, and g - 1 latencies later the collective
/// is complete. Ranks with the same r / per_host are on one host; a group within a host uses the
/// ports `inside`, other groups those `outside`. A reduction in two levels (Call::two_levels())
/// over H hosts of h ranks uses both ports at once, since its segments go through both levels one
/// behind the other: the bytes to ranks of the own host leave through the port `inside` and those
/// to other hosts through the port `outside`. It is complete h - 1 latencies of `inside` and H - 1
/// latencies of `outside` after the last of these bytes have left. A message is complete, on both
/// ranks, one latency after its bytes have left. A rank that waited for a call continues
/// Cluster::wake_seconds later, but at most as much later as it had waited. The ports' rates are
/// those of large messages; other costs of the communication library are not modeled.
///
/// Transfers of offload use the device's link to its host, one after the other in each direction,
/// and the device's share of the host's disk, which makes one transfer at a time. Each begins when
/// the rank starts it and overlaps with the rank's work until the rank waits for it. An optimizer
/// step in host memory counts as computing, at the host's rate.
///
/// The cluster must have the per_host of the one for which the ranks were recorded, since calls
/// were recorded in one level or in two by it. Throws an Error if it has another one, and an Error
/// that names the ranks and calls if ranks deadlock, if a call is not begun by all its ranks, or if
/// the ranks of a group make different calls.
Simulation replay(const Recording& recording, const Cluster& cluster, bool spans = false);

/// Writes the spans as a trace file, which Perfetto and chrome://tracing open: a process for each
/// of the first `most` ranks, with tracks for computing, waiting, its ports, transfers to and from
/// host memory and disk if there are any, and its memory. Arrows lead from a message to the next
/// kernel of its receiver. Throws an Error if the simulation kept no spans.
void write_trace(const Simulation& simulation, const std::string& path, int most = 64);

}  // namespace hero::dist

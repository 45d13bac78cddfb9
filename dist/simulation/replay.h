#pragma once
// Plays what ranks did on a cluster: discrete events of computing, waiting and ports.
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
  Collective op = Collective::barrier;    ///< of calls, and of waiting for them
  std::optional<Transfer> transfer = {};  ///< of transfers, and of waiting for them
  int32_t label = -1;                     ///< of Simulation::labels
  double begin = 0.0, end = 0.0;
  int64_t bytes = 0;    ///< that left; of compute those that are held at its end
  int64_t on_host = 0;  ///< of compute: those that are then held in the host's memory
};

/// Where one rank's step went; seconds. The sum of all but `compute` is time in which it did
/// nothing.
struct ReplayRank {
  int rank = 0;
  double compute = 0.0;
  double collectives = 0.0;     ///< waiting for collectives: what communication no computing hides
  double messages = 0.0;        ///< waiting for messages: in a pipeline its bubble and its borders
  double transfers = 0.0;       ///< waiting for bytes that are offloaded, or come back
  double after_end = 0.0;       ///< from its own end to that of the last rank
  double peak_compute = 0.0;    ///< what its products and attention take at the devices' peak
  double peak_recompute = 0.0;  ///< of `peak_compute`: what checkpoint() computes again
  int64_t flops = 0;
  int64_t sent_inside = 0, sent_outside = 0;       ///< bytes
  std::array<int64_t, kMemoryTagCount> peak = {};  ///< bytes of memory by tag
  int64_t peak_total = 0;
  std::array<int64_t, kMemoryTagCount> host_peak = {};  ///< where the host's memory is another
  int64_t host_peak_total = 0;
  int64_t disk_peak = 0;                           ///< bytes of places in files
  std::array<int64_t, kTransferCount> moved = {};  ///< bytes of the step
  std::vector<ReplaySpan> spans;
};

/// What the ranks waited for under one name.
struct ReplayCall {
  Collective op = Collective::barrier;
  int32_t label = -1;    ///< of Simulation::labels: the unit
  int64_t waits = 0;     ///< of all ranks that ran
  double seconds = 0.0;  ///< mean over them
};

/// A message on its way.
struct ReplayMessage {
  int from = 0, to = 0;  ///< ranks of the world
  int32_t label = -1;    ///< of Simulation::labels
  bool outside = false;  ///< which of the sender's ports it takes
  double begin = 0.0;    ///< when its first byte leaves
  double end = 0.0;      ///< when it is complete
};

/// A step on a cluster. Fractions are means over the ranks that ran.
struct Simulation {
  int world_size = 0;
  double seconds = 0.0;    ///< from the first rank's beginning to the last one's end
  double bubble = 0.0;     ///< fraction of the step in messages and after_end
  double exposed = 0.0;    ///< fraction of the step in collectives
  double transfers = 0.0;  ///< fraction of the step waiting for what is offloaded
  /// Model flops utilisation: the time that the model's products and attention, forward and
  /// backward, take at the devices' peak, as a part of the step's. What checkpoint() computes again
  /// does not count. As attention is charged, of a causal one only the pairs that are not masked
  /// do, where the formula of PaLM (Chowdhery et al., arXiv 2204.02311, appendix B) counts all
  /// pairs.
  double mfu = 0.0;
  /// Hardware flops utilisation: the same, with what checkpoint() computes again; equal to `mfu`
  /// where nothing is.
  double hfu = 0.0;
  double flops = 0.0;      ///< of all ranks of the world, if the others are as those that ran
  int64_t peak_bytes = 0;  ///< the most memory that a rank held
  int peak_rank = 0;       ///< that rank
  std::map<std::string, int64_t> bytes_by_axis;  ///< sent by the rank that sends most there
  std::vector<ReplayCall> waits;                 ///< the longest first
  std::vector<ReplayRank> ranks;
  std::vector<ReplayMessage> messages;  ///< that have bytes; kept where spans are
  std::vector<std::string> labels;

  /// What a reader wants to know, as lines of text.
  std::string table() const;
};

/// A collective begins to move when all its ranks that ran have begun it and what it is `after` is
/// complete; then each rank's bytes leave through its port one call after the other, at the port's
/// rate, and g - 1 latencies later it is complete. Ranks r / per_host are a host; a group within
/// one uses the ports inside, others those outside. A message is complete one latency after its
/// bytes have left, for both ends. A rank that waited for it goes on Cluster::wake_seconds later,
/// or as much later as it had waited where that is less. The ports' rates are those of large
/// messages; what else the library adds to each call is not in it.
///
/// What is offloaded goes over a device's link to its host, one transfer after the other each way,
/// and to and from the device's part of the host's disk, which does one thing at a time; each
/// begins where the rank asked for it and overlaps with what the rank does until it waits. The
/// optimizer's step of what lies in the host's memory is computing, at the host's rate.
///
/// An Error that names the ranks and calls where ranks wait for each other for ever, where a call
/// is not begun by all, and where the ranks of a group call different things.
Simulation replay(const Recording& recording, const Cluster& cluster, bool spans = false);

/// Writes the spans as a trace file, which Perfetto and chrome://tracing open: a process for each
/// of the first `most` ranks, with tracks of computing, waiting and its ports, the ways to and from
/// the host's memory and the disk where it uses them, and its memory;
/// arrows lead from messages to what their receiver computes next. An Error where the simulation
/// kept no spans.
void write_trace(const Simulation& simulation, const std::string& path, int most = 64);

}  // namespace hero::dist

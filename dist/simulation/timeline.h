#pragma once
// Recording: the events of simulated ranks, in order: computing, calls that a rank began, calls
// that it waited for.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <hero/core/ledger.h>
#include <hero/dist/backends/call.h>
#include <hero/dist/traffic.h>

namespace hero::dist {

/// A group of ranks that make collectives together, or send messages to each other.
struct GroupRecord {
  std::string axis;
  std::vector<int> ranks;  ///< world ranks, in the order of the group
};

/// One event of a rank. Which members are used depends on `kind`.
struct TimelineEvent {
  enum class Kind : uint8_t {
    compute,  ///< kernels between two other events: `seconds`, `peak_seconds`, `flops`
    begin,    ///< call `call` of `op` on `group`
    wait,     ///< waiting until call or transfer `call` is complete
    move,  ///< transfer number `call` of kind `transfer`; calls and transfers are numbered together
  };
  Kind kind = Kind::compute;
  Transfer transfer = Transfer::to_device;
  Collective op = Collective::barrier;
  int32_t group = -1;  ///< index in Recording::groups
  int32_t peer = -1;   ///< of a message: the other rank, by its number in the group
  int32_t label = -1;  ///< index in Recording::labels: a part of the program, or a call's unit
  int64_t call = -1;   ///< number of a call or transfer of its rank
  int64_t after = -1;  ///< number of the call after which this one begins; -1: none
  int64_t bytes = 0;   ///< bytes that this rank sends, as Traffic counts them, or transfers
  int64_t bytes_across = 0;   ///< in two levels (Call::two_levels()): those of them to other hosts
  int32_t ranks_of_host = 0;  ///< in two levels: the h ranks of each host; otherwise 0
  int64_t flops = 0;
  double seconds = 0.0;  ///< time of the kernels on the cluster's devices
  /// Time of their matrix products and attention at the peak flops of their dtypes.
  double peak_seconds = 0.0;
  double recomputed_seconds = 0.0;  ///< part of `peak_seconds` that checkpoint() recomputes
  int64_t live = 0;                 ///< bytes of memory that the rank held at the end of the event
  int64_t live_on_host = 0;         ///< bytes of host memory, if the host has memory of its own
};

/// The part of a step between two calls of simulated_part().
struct TimelinePart {
  int32_t label = -1;                    ///< index in Recording::labels
  size_t first = 0;                      ///< index of its first event
  int64_t live = 0;                      ///< bytes that the rank held at its beginning
  int64_t most = 0;                      ///< the most bytes that it held in this part
  int64_t host_live = 0, host_most = 0;  ///< the same for host memory
};

/// One rank's events and its counts of memory and traffic.
struct RankTimeline {
  int rank = 0;
  std::vector<TimelineEvent> events;
  std::vector<TimelinePart> parts;  ///< only from record_parts()
  int64_t most_before = 0;  ///< with parts: peak bytes in the last part before the recorded step
  int64_t host_most_before = 0;
  std::array<int64_t, kMemoryTagCount> peak = {};       ///< peak bytes by tag, of the whole program
  int64_t peak_total = 0;                               ///< peak bytes, of the whole program
  std::array<int64_t, kMemoryTagCount> host_peak = {};  ///< the same for host memory
  int64_t host_peak_total = 0;
  int64_t disk_peak = 0;  ///< peak bytes of slots in files
  Traffic traffic;        ///< traffic of the recorded step
};

/// The recorded ranks of a world. Ranks that were not recorded are assumed to do the same at the
/// same time as the recorded ranks with which they share a group, so one rank of each pipeline
/// stage stands for all.
struct Recording {
  int world_size = 0;
  int per_host = 0;  ///< Cluster::per_host, on which it depends which calls have two levels
  std::vector<GroupRecord> groups;
  std::vector<std::string> labels;
  std::vector<RankTimeline> ranks;
};

}  // namespace hero::dist

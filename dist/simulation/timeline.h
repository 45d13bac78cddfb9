#pragma once
// What one simulated rank did, in order: computing, calls that it began, calls that it waited for.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <hero/core/ledger.h>
#include <hero/dist/backends/call.h>
#include <hero/dist/traffic.h>

namespace hero::dist {

/// A group of ranks whose calls meet, by its place in a Recording.
struct GroupRecord {
  std::string axis;
  std::vector<int> ranks;  ///< numbers in the world, in the group's order
};

/// One thing that a rank did. Which members mean something depends on `kind`.
struct TimelineEvent {
  enum class Kind : uint8_t {
    compute,  ///< kernels between two other events: `seconds`, `peak_seconds`, `flops`
    begin,    ///< call `call` of `op` on `group`
    wait,     ///< until call `call` is complete, or transfer `call` has arrived
    move,     ///< transfer `call` of `bytes`, `transfer`: numbers are those of calls
  };
  Kind kind = Kind::compute;
  Transfer transfer = Transfer::to_device;
  Collective op = Collective::barrier;
  int32_t group = -1;  ///< of Recording::groups
  int32_t peer = -1;   ///< of a message the other end, a rank in the group
  int32_t label = -1;  ///< of Recording::labels: a part of the program, or a call's unit
  int64_t call = -1;   ///< number of a call among those of its rank
  int64_t after = -1;  ///< that call must be complete before this one begins to move
  int64_t bytes = 0;   ///< that this rank sends in the call, as Traffic counts them, or moves
  int64_t flops = 0;
  double seconds = 0.0;  ///< what the kernels take on the cluster's devices
  /// What their matrix products and attention would take at the peak of their dtypes.
  double peak_seconds = 0.0;
  double recomputed_seconds = 0.0;  ///< of `peak_seconds`: what checkpoint() computes again
  int64_t live = 0;                 ///< bytes that the rank held at the end of the event
  int64_t live_on_host = 0;         ///< and in the host's memory, where that is another
};

/// What lies between two calls of simulated_part().
struct TimelinePart {
  int32_t label = -1;                    ///< of Recording::labels
  size_t first = 0;                      ///< place of its first event
  int64_t live = 0;                      ///< bytes that the rank held at its beginning
  int64_t most = 0;                      ///< and at most while it lasted
  int64_t host_live = 0, host_most = 0;  ///< the same in the host's memory
};

/// One rank's events and what it counted.
struct RankTimeline {
  int rank = 0;
  std::vector<TimelineEvent> events;
  std::vector<TimelinePart> parts;  ///< where they were asked for: see record_parts()
  int64_t most_before = 0;          ///< bytes, with parts: in the last one before the recorded step
  int64_t host_most_before = 0;
  std::array<int64_t, kMemoryTagCount> peak = {};       ///< bytes by tag, of the whole program
  int64_t peak_total = 0;                               ///< bytes, of the whole program
  std::array<int64_t, kMemoryTagCount> host_peak = {};  ///< the same of the host's memory
  int64_t host_peak_total = 0;
  int64_t disk_peak = 0;  ///< bytes of places in files
  Traffic traffic;        ///< of the recorded step
};

/// The ranks of a world that ran. Where not all did, the others are taken to do at the same time
/// what those that share a group with them do: one rank of each pipeline stage stands for all.
struct Recording {
  int world_size = 0;
  std::vector<GroupRecord> groups;
  std::vector<std::string> labels;
  std::vector<RankTimeline> ranks;
};

}  // namespace hero::dist

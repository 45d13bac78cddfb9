#pragma once
// What one simulated rank did, in order: computing, calls that it began, calls that it waited for.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <hero/core/ledger.h>
#include <hero/dist/engines/call.h>
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
    compute,   ///< `seconds`, `flops`: kernels between two other events
    begin,     ///< call `call` of `op` on `group`, with `bytes` in all; `peer` of messages
    wait,      ///< until `call` is complete
    transfer,  ///< `bytes` begin to go over `transfer`; its wait is a `wait` for `call`
    mark,      ///< `label`: from here on the rank is in that part (forward of a unit, ..)
  };
  Kind kind = Kind::compute;
  Collective op = Collective::barrier;
  Transfer transfer = Transfer::to_device;
  int32_t group = -1;  ///< of Recording::groups
  int32_t peer = -1;   ///< rank in the group: the other end of a message, or the root
  int32_t label = -1;  ///< of Recording::labels: a part, or the unit of a call
  int64_t call = -1;   ///< number of a call among those of its rank
  int64_t after = -1;  ///< that call must be complete before this one begins to move
  int64_t bytes = 0;   ///< the array's: input of a reduction, output of a gathering
  double seconds = 0.0;
  int64_t flops = 0;
  int64_t live = 0;  ///< bytes that the rank held at this event, all tags
};

struct RankTimeline {
  int rank = 0;
  std::vector<TimelineEvent> events;
  std::array<int64_t, kMemoryTagCount> peak = {};  ///< bytes by tag
  int64_t peak_total = 0;
  Traffic traffic;
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

#pragma once
// UnitOptions: the options of a unit, from which follow its offload target (offload_target.h), its
// all-gather (all_gather.h) and its reduce-scatter (reduce_scatter.h).
#include <memory>
#include <optional>
#include <vector>

#include <hero/dist/communicator.h>
#include <hero/dist/data_parallel/quantized_sum.h>
#include <hero/dist/offload.h>
#include <hero/dist/quantize.h>

namespace hero::dist {

struct DiskOrder;

/// What is sharded: each stage shards what the previous one does, and in addition what it is named
/// after.
enum class Stage : uint8_t { none, optimizer, gradients, parameters };
/// The name of the strategy for errors: "DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3 or fully_shard()".
const char* strategy_name(Stage stage);

/// The ranks among which a unit is sharded and, in hybrid sharding, the ranks that hold the same
/// shard.
struct Groups {
  Communicator shard;
  Communicator replicas;  ///< undefined: none
  Communicator all = {};  ///< with replicas: all ranks, replica after replica

  /// The world ranks that hold shard `i`.
  std::vector<int> holders(int i) const;
  int ranks() const { return shard.size() * (replicas.defined() ? replicas.size() : 1); }
};

/// In hybrid sharding: when the sums of the shard groups are added up over the replicas. `later`:
/// each rank keeps its part of the sums (in float32 if gradients have half precision) and adds them
/// up until a reduction with `now`.
enum class AllReduce : uint8_t { now, later };

struct UnitOptions {
  Groups groups = {};
  Stage stage = Stage::none;
  std::optional<DType> gathered = {};  ///< dtype of whole parameters; absent: that of the shards
  std::optional<DType> reduce = {};    ///< dtype in which gradients are sent; absent: their own
  Order order = Order::tree;           ///< order in which gradients are added up
  double divide_by = 0.0;              ///< divisor of the sum of gradients; 0: the number of ranks
  Device device = kCpu;                ///< device on which parameters made on meta are allocated
  Offload offload = {};                ///< where shards lie while they are not needed
  Quantize quantize = {};              ///< Stage::parameters: which messages are encoded
  QuantizedRoute route = {};           ///< groups over which quantised gradients are reduced
  /// Order of the module's units if `offload` is a file.
  std::shared_ptr<DiskOrder> disk_order = {};
};

}  // namespace hero::dist

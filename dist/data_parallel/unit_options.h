#pragma once
// What a unit is made with. Its strategies follow from it: where its shard lies
// (offload_target.h), its all-gather (all_gather.h) and its reduce-scatter (reduce_scatter.h).
#include <memory>
#include <optional>
#include <vector>

#include <hero/dist/communicator.h>
#include <hero/dist/data_parallel/quantized_sum.h>
#include <hero/dist/offload.h>
#include <hero/dist/quantize.h>

namespace hero::dist {

struct DiskOrder;

/// What is cut into shards; each stage cuts what the one before it cuts, and one thing more.
enum class Stage : uint8_t { none, optimizer, gradients, parameters };
/// What users call it.
const char* strategy_name(Stage stage);

/// The ranks among which a unit is cut and, in a hybrid, those that hold the same shard.
struct Groups {
  Communicator shard;
  Communicator replicas;  ///< undefined: none
  Communicator all = {};  ///< where there are replicas: all ranks, one replica behind the other

  /// Of the ranks that hold shard `i`, their numbers in the whole world.
  std::vector<int> holders(int i) const;
  int ranks() const { return shard.size() * (replicas.defined() ? replicas.size() : 1); }
};

/// When the sums of a hybrid's groups go on over the replicas. `later`: each rank keeps its part of
/// them, in float32 where they are halves, and adds them up until a reduction that is `now`.
enum class AllReduce : uint8_t { now, later };

struct UnitOptions {
  Groups groups = {};
  Stage stage = Stage::none;
  std::optional<DType> gathered = {};  ///< dtype of whole parameters; absent: that of the shards
  std::optional<DType> reduce = {};    ///< dtype in which gradients travel; absent: theirs
  Order order = Order::tree;           ///< in which gradients are added up
  double divide_by = 0.0;              ///< what their sum is divided by; 0: the number of ranks
  Device device = kCpu;                ///< where parameters made on meta get their bytes
  Offload offload = {};                ///< where shards lie while they are not needed
  Quantize quantize = {};              ///< Stage::parameters: what travels in a codec's bytes
  QuantizedRoute route = {};           ///< of its gradients
  std::shared_ptr<DiskOrder> disk_order = {};  ///< of the module's units, where that is a file
};

}  // namespace hero::dist

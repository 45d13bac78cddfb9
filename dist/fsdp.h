#pragma once
// This header has fully_shard(), which divides a module among the ranks, and its options.
#include <functional>
#include <optional>
#include <vector>

#include <hero/dist/data_parallel.h>
#include <hero/dist/mesh.h>
#include <hero/dist/offload.h>
#include <hero/dist/quantize.h>
#include <hero/dist/wrap_policy.h>

namespace hero::dist {

/// The dtypes of a step; when absent, the dtype of the parameters. The shards that the optimizer
/// steps keep their dtype.
struct MixedPrecision {
  std::optional<DType> parameters = {};  ///< dtype of gathered parameters and floating inputs
  std::optional<DType> reduce = {};      ///< dtype in which gradients are sent and added up
  std::optional<DType> output = {};      ///< dtype of what the module returns
};

/// Options of fully_shard().
struct FSDPOptions {
  UnitPolicy unit = {};  ///< which modules are units; all other parameters are in the root's unit
  bool reshard_after_forward = true;    ///< false: gather once per step, keep until backward ends
  int prefetch = 1;                     ///< units that are gathered ahead of the one that computes
  MixedPrecision mixed_precision = {};  ///< dtypes of a step
  /// Names of parameters that stay whole and are not averaged.
  std::vector<std::string> ignored_parameters = {};
  /// Paths of modules all of whose parameters stay whole.
  std::vector<std::string> ignored_modules = {};
  bool sync_module_states = false;  ///< true: rank 0 first sends its parameters and buffers
  bool broadcast_buffers = true;    ///< as in DDPOptions
  /// The device on which a module made on meta computes. Its shards are initialised there or, if
  /// offloaded, in host memory.
  Device device = kCpu;
  Order order = Order::tree;  ///< order in which the ranks' gradients are added up
  double divide_by = 0.0;     ///< divisor of their sum; 0: the number of ranks
  Offload offload = {};       ///< shards, gradients and states in host memory or a file
  Quantize quantize = {};     ///< which gathers and reductions are quantised
};

/// Fully sharded data parallelism: each of N ranks keeps 1 / N of each unit's parameters, gradients
/// and optimizer states. A unit is gathered before the forward pass of its module, freed after it,
/// and gathered again for backward; then its gradients are averaged and every rank keeps its shard.
/// Beside the root's unit, which is gathered from its forward to the end of backward, at most two
/// units are gathered at a time: the one that computes and the one that is prefetched (three if two
/// are computed together, as the layers of an nn::FeedForward are). A module made on meta gets the
/// initial values that it would have without meta, shard by shard. A unit has one dtype; parameters
/// that are tied over two units are an Error. All ranks must use the same parameters in a step.
/// Zhao et al., arXiv 2304.11277. \snippet test_examples_ranks.cpp fully_shard
DataParallel fully_shard(nn::Module& module, const Communicator& comm,
                         const FSDPOptions& options = {});

/// Does the same over a mesh of one axis, or hybrid sharding over a mesh of two: parameters are
/// sharded along the second axis and replicated along the first. Gradients are added up within each
/// group of G shards first and then over the H replicas; for n bytes of gradients each rank sends 2
/// n / G (H - 1) / H bytes along the first axis (in float32, even if gradients have half
/// precision). For Order::tree the sum has the bits of fully_shard() over all H G ranks if G is a
/// power of two; for other G it is a sum of trees with bits of its own. Order::ranks is an Error if
/// H > 1.
DataParallel fully_shard(nn::Module& module, const Mesh& mesh, const FSDPOptions& options = {});

/// Modules that are sharded as one unit.
using UnitModules = std::vector<std::reference_wrapper<nn::Module>>;

/// Does the same for several modules at once, whose parameters become one unit:
/// fully_shard({model.norm, model.head}, world). The unit is gathered when the forward of the first
/// of them begins, and freed when each of them has run. A parameter that they share is in the unit
/// once. Use it for modules of the same outermost module, which you shard afterwards. It is
/// PyTorch's fully_shard() of a list. Throws an Error if a module is in another one of the list.
/// \snippet test_examples_ranks.cpp fully_shard_list
DataParallel fully_shard(const UnitModules& modules, const Communicator& comm,
                         const FSDPOptions& options = {});
/// Does the same over a mesh of one or two axes.
DataParallel fully_shard(const UnitModules& modules, const Mesh& mesh,
                         const FSDPOptions& options = {});

}  // namespace hero::dist

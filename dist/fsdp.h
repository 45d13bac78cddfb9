#pragma once
// This header has fully_shard(), which divides a module among the ranks, and its options.
#include <optional>

#include <hero/dist/data_parallel.h>
#include <hero/dist/mesh.h>
#include <hero/dist/offload.h>
#include <hero/dist/policy.h>
#include <hero/dist/quantize.h>

namespace hero::dist {

/// dtypes of a step; absent: the parameters'. The shards that the optimizer steps keep theirs.
struct MixedPrecision {
  std::optional<DType> parameters = {};  ///< of gathered parameters and floating inputs
  std::optional<DType> reduce = {};      ///< in which gradients travel and are added up
  std::optional<DType> output = {};      ///< of what the module returns
};

struct FSDPOptions {
  UnitPolicy unit = {};               ///< which modules are units; the rest is the root's unit
  bool reshard_after_forward = true;  ///< false: gathered once a step, kept until backward ends
  bool prefetch = true;               ///< the next unit is gathered while this one computes
  MixedPrecision mixed_precision = {};
  std::vector<std::string> ignored_parameters = {};  ///< left whole, never averaged
  std::vector<std::string> ignored_modules = {};     ///< paths; all their parameters are left so
  bool sync_module_states = false;                   ///< rank 0's values and buffers first
  Device device = kCpu;       ///< where a module made on meta computes; its shards get their values
                              ///< there or, offloaded, in the host's memory
  Order order = Order::tree;  ///< in which the ranks' gradients are added up
  double divide_by = 0.0;     ///< what their sum is divided by, 1 keeps it; 0: the number of ranks
  Offload offload = {};       ///< shards, their gradients and states in the host's memory
  Quantize quantize = {};     ///< what of gathers and reductions travels in bytes of a codec
};

/// Fully sharded data parallelism: every rank keeps one N-th of each unit's parameters, gradients
/// and optimizer states. A unit is gathered before its module's forward, freed after it, gathered
/// again for backward; then its gradients are averaged and every rank keeps its part. At most two
/// units are gathered at a time, three where two of them are computed as one (the layers of an
/// nn::FeedForward), beside the root's, which is gathered from its forward to the end of backward.
/// A module made on meta gets the values that it would have had, shard by shard. One unit has one
/// dtype; parameters tied over two units are an Error. All ranks must use the same parameters in a
/// step. Zhao et al., arXiv 2304.11277.
/// \snippet test_examples_ranks.cpp fully_shard
DataParallel fully_shard(nn::Module& module, const Communicator& comm,
                         const FSDPOptions& options = {});

/// The same over a mesh of one axis, or hybrid over one of two: parameters are sharded along the
/// second axis and replicated along the first. Gradients are added up within each group of G shards
/// first and then over the H replicas, at 2 n / G (H - 1) / H bytes a rank over the first axis for
/// n bytes of gradients (in float32 there, also where they are halves). In Order::tree the sum is
/// that of fully_shard over all H G ranks, to the bit, where G is a power of two; for other G it is
/// a sum of trees with bits of its own. Order::ranks is an Error where H > 1.
DataParallel fully_shard(nn::Module& module, const Mesh& mesh, const FSDPOptions& options = {});

}  // namespace hero::dist

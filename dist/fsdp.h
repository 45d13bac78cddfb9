#pragma once
#include <optional>

#include <hero/dist/data_parallel.h>
#include <hero/dist/mesh.h>
#include <hero/dist/policy.h>

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
  bool sync_module_states = false;                   ///< rank 0's values and buffers first
  Device device = kCpu;  ///< where parameters made on meta get their values, shard by shard
};

/// Fully sharded data parallelism: every rank keeps one N-th of each unit's parameters, gradients
/// and optimizer states. A unit is gathered before its module's forward, freed after it, gathered
/// again for backward; then its gradients are averaged and every rank keeps its part. At most two
/// units are gathered at a time, three where two of them are computed as one (the layers of an
/// nn::FeedForward), beside the root's, which is gathered from its forward to the end of backward.
/// A module made on meta gets the values that it would have had, shard by shard. One unit has one
/// dtype; parameters tied over two units are an Error. All ranks must use the same parameters in a
/// step. Zhao et al., arXiv 2304.11277.
DataParallel fully_shard(nn::Module& module, const Communicator& comm,
                         const FSDPOptions& options = {});

/// The same over a mesh of one axis, or hybrid over one of two: parameters are sharded along the
/// second axis and replicated along the first. Gradients are added up in the order of all ranks, at
/// 2 n / G (H - 1) / H bytes a rank over the first axis on average (H replicas of G shards each).
DataParallel fully_shard(nn::Module& module, const Mesh& mesh, const FSDPOptions& options = {});

}  // namespace hero::dist

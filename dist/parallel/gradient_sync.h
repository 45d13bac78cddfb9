#pragma once
// When the gradients of a pipeline's parameters are averaged over other axes of the mesh.
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <hero/dist/data_parallel/accumulate_scope.h>
#include <hero/dist/data_parallel/sharded_module.h>
#include <hero/dist/parallel/stages.h>

namespace hero::dist {

/// The sharded modules of these values, each once.
std::vector<std::shared_ptr<ShardedModule>> sharded_modules_of(
    const std::vector<StageValue>& values);

/// While it lives, units that stay gathered between forward and backward stay gathered over all
/// micro-batches.
class KeepGathered {
 public:
  explicit KeepGathered(std::vector<std::shared_ptr<ShardedModule>> replicas);
  ~KeepGathered();
  KeepGathered(const KeepGathered&) = delete;
  KeepGathered& operator=(const KeepGathered&) = delete;
  /// Frees them.
  void end();

 private:
  std::vector<std::shared_ptr<ShardedModule>> replicas_;
};

/// While it lives, backward only adds up gradients, except for a chunk's last micro-batch: then the
/// gradients of the chunk's units are averaged and, in the rank's last backward, all others. DDP
/// averages in the rank's last backward if the rank has one chunk, since all its parameters then
/// have gradients; with several chunks it averages after that backward. If the program has turned
/// averaging off before, it stays off.
class GradientSync {
 public:
  GradientSync(std::vector<std::shared_ptr<ShardedModule>> replicas, int chunks);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  /// Called before a backward that is not a chunk's last one.
  void add_up();
  /// Called before a backward after which the gradients of these modules are complete.
  void average(const std::vector<nn::Module*>& modules);
  /// Called before the rank's last backward.
  void average_all();
  /// Called after the rank's last backward.
  void end();

 private:
  std::vector<std::shared_ptr<ShardedModule>> replicas_;  // the sharded modules that average
  bool by_module_ = false;
  bool one_chunk_;
  std::optional<AccumulateScope> whole_;  // for parameters that none of them shards (DDP)
};

}  // namespace hero::dist

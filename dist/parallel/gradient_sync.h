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

/// Who shards the values, each once.
std::vector<std::shared_ptr<ShardedModule>> sharded_modules_of(
    const std::vector<StageValue>& values);

/// Units that stay gathered between forward and backward stay so over all micro-batches while it
/// lives.
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

/// Lets backward add up gradients alone while it lives, but where a chunk's last micro-batch comes:
/// then those of its units are averaged and, with the rank's last backward, the rest. DDP averages
/// in the rank's last backward, too, where that has gradients for all parameters of the rank: of
/// one chunk. Of several chunks it averages behind it. A program that turned averaging off
/// beforehand keeps it off.
class GradientSync {
 public:
  GradientSync(std::vector<std::shared_ptr<ShardedModule>> replicas, int chunks);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  /// Before a backward that is not a chunk's last one.
  void add_up();
  /// Before a backward after which the gradients of these modules are complete.
  void average(const std::vector<nn::Module*>& modules);
  /// Before the rank's last backward.
  void average_all();
  /// After it.
  void end();

 private:
  std::vector<std::shared_ptr<ShardedModule>> replicas_;  // those that average
  bool by_module_ = false;
  bool one_chunk_;
  std::optional<AccumulateScope> whole_;  // of parameters that no replica here shards
};

}  // namespace hero::dist

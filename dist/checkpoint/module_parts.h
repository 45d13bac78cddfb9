#pragma once
// Saving a module's values in part files and loading them, for checkpoints.
#include <vector>

#include <hero/dist/checkpoint/part_files.h>
#include <hero/dist/checkpoint/parts.h>

namespace hero::dist {

/// Calls fn with the parts of a module's values that each rank saves. Only this rank's parts have
/// valid arrays; those of other ranks have only the right dtype.
void each_part(const std::vector<ShardedValue>& values, const PartFn& fn);

/// This rank's parts of a module's values, read but not yet copied into the module.
struct StagedModule {
  std::vector<std::pair<ShardedValue, Array>> arrays;
  nn::LoadResult result;

  /// Copies them into the module.
  void commit() const;
};

/// Reads this rank's parts. Throws an Error that lists all names that are missing, unexpected or
/// mis-shaped, as Module::load_state_dict() does.
StagedModule stage_module(const std::vector<ShardedValue>& values, const PartFiles& files,
                          const nn::LoadOptions& options);

}  // namespace hero::dist

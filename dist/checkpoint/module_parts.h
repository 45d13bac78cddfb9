#pragma once
// A module's values to and from part files, for checkpoints.
#include <vector>

#include <hero/dist/checkpoint/part_files.h>
#include <hero/dist/checkpoint/parts.h>

namespace hero::dist {

/// Calls fn with what every rank saves of a module's values. The arrays are this rank's: of other
/// ranks' parts they tell the dtype alone.
void each_part(const std::vector<Held>& values, const PartFn& fn);

/// This rank's parts of a module's values, read but not yet the module's.
struct StagedModule {
  std::vector<std::pair<Held, Array>> arrays;
  nn::LoadResult result;

  /// Makes them the module's.
  void commit() const;
};

/// Reads this rank's parts. An Error lists what is missing, unexpected or mis-shaped, as
/// Module::load_state_dict() does.
StagedModule stage_module(const std::vector<Held>& values, const PartFiles& files,
                          const nn::LoadOptions& options);

}  // namespace hero::dist

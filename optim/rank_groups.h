#pragma once
// The groups of ranks that hold the shards of parameters, for optimizers.
#include <algorithm>
#include <vector>

#include <hero/autograd/sharding/partition.h>

namespace hero::optim {

/// The ranks that hold the shards of a parameter; null if the parameter is whole.
inline RankGroup* group_of(const Tensor& param) {
  const Partition* part = partition(param);
  return part ? part->group.get() : nullptr;
}

/// The groups of all parameters, each once, in the order of their first parameter. If a parameter
/// is whole, null is among them.
inline std::vector<RankGroup*> groups_of(const std::vector<Tensor>& params) {
  std::vector<RankGroup*> all;
  for (const Tensor& param : params) {
    RankGroup* group = group_of(param);
    if (std::find(all.begin(), all.end(), group) == all.end()) all.push_back(group);
  }
  return all;
}

/// The groups of the models' other parameters (RankGroup::elsewhere()), each once.
inline std::vector<RankGroup*> groups_elsewhere(const std::vector<Tensor>& params) {
  std::vector<RankGroup*> all;
  for (RankGroup* group : groups_of(params)) {
    RankGroup* other = group ? group->elsewhere() : nullptr;
    if (other && std::find(all.begin(), all.end(), other) == all.end()) all.push_back(other);
  }
  return all;
}

/// Throws an Error if a parameter is a shard; for optimizers that need all elements at once.
inline void check_whole(const char* optimizer, const std::vector<Tensor>& params) {
  for (size_t i = 0; i < params.size(); ++i) {
    const Partition* part = partition(params[i]);
    check(!part, optimizer, ": parameter ", i, " is a shard of ", part ? part->whole : Shape{},
          ", but a step needs whole parameters; gather them for it, or use an optimizer that steps "
          "each element by itself, such as AdamW");
  }
}

}  // namespace hero::optim

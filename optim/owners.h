#pragma once
// The owners of parameters that are shards, for optimizers.
#include <algorithm>
#include <vector>

#include <hero/autograd/sharding/partition.h>

namespace hero::optim {

/// The owners of the other shards of a parameter; null if the parameter is whole.
inline Owners* owners_of(const Tensor& param) {
  const Partition* part = partition(param);
  return part ? part->owners.get() : nullptr;
}

/// All owners of the parameters, each once, in the order of their first parameter. If a parameter
/// is whole, null is among them.
inline std::vector<Owners*> all_owners(const std::vector<Tensor>& params) {
  std::vector<Owners*> all;
  for (const Tensor& param : params) {
    Owners* owners = owners_of(param);
    if (std::find(all.begin(), all.end(), owners) == all.end()) all.push_back(owners);
  }
  return all;
}

/// The owners of the models' other parameters (Owners::elsewhere()), each once.
inline std::vector<Owners*> all_elsewhere(const std::vector<Tensor>& params) {
  std::vector<Owners*> all;
  for (Owners* owners : all_owners(params)) {
    Owners* other = owners ? owners->elsewhere() : nullptr;
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

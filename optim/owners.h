#pragma once
// What optimizers ask about parameters that are shards of larger ones.
#include <algorithm>
#include <vector>

#include <hero/autograd/partition.h>

namespace hero::optim {

/// Who holds the other parts of a parameter; null for one that is whole.
inline Owners* owners_of(const Tensor& param) {
  const Partition* part = partition(param);
  return part ? part->owners.get() : nullptr;
}

/// All owners of the parameters, each once, in the order of their first parameter. Null is among
/// them where a parameter is whole.
inline std::vector<Owners*> all_owners(const std::vector<Tensor>& params) {
  std::vector<Owners*> all;
  for (const Tensor& param : params) {
    Owners* owners = owners_of(param);
    if (std::find(all.begin(), all.end(), owners) == all.end()) all.push_back(owners);
  }
  return all;
}

/// Those who hold other parameters of the models that these belong to, each once.
inline std::vector<Owners*> all_elsewhere(const std::vector<Tensor>& params) {
  std::vector<Owners*> all;
  for (Owners* owners : all_owners(params)) {
    Owners* other = owners ? owners->elsewhere() : nullptr;
    if (other && std::find(all.begin(), all.end(), other) == all.end()) all.push_back(other);
  }
  return all;
}

/// Throws where a parameter is a shard: for optimizers that look at all elements at once.
inline void check_whole(const char* optimizer, const std::vector<Tensor>& params) {
  for (size_t i = 0; i < params.size(); ++i) {
    const Partition* part = partition(params[i]);
    check(!part, optimizer, ": parameter ", i, " is a shard of ", part ? part->whole : Shape{},
          ", but a step needs whole parameters; gather them for it, or use an optimizer that steps "
          "each element by itself, such as AdamW");
  }
}

}  // namespace hero::optim

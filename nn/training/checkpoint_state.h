#pragma once
// Names and states in checkpoints; internal to the Checkpointers of nn and dist.
#include <string>
#include <vector>

#include <hero/core/safetensors.h>

namespace hero::nn::checkpoints {

/// The format of a checkpoint of one process.
inline constexpr const char* kFormat = "hero checkpoint 1";
/// The name of the generator that is always saved.
inline constexpr const char* kDefaultGenerator = "default";

/// The file of a tracked object.
inline std::string object_file(const std::string& folder, const std::string& name) {
  return folder + "/" + name + ".safetensors";
}

/// The state with copies of its arrays.
inline std::vector<core::NamedArray> copy_of(std::vector<core::NamedArray> dict) {
  for (core::NamedArray& entry : dict) entry.array = entry.array.clone();
  return dict;
}

}  // namespace hero::nn::checkpoints

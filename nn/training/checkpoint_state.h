#pragma once
// Names in the checkpoints of one process; internal to nn::Checkpointer.
#include <string>

namespace hero::nn::checkpoints {

inline constexpr const char* kFormat = "hero checkpoint 1";
/// The name of the generator that is always saved.
inline constexpr const char* kDefaultGenerator = "default";

/// The file of a tracked object.
inline std::string object_file(const std::string& folder, const std::string& name) {
  return folder + "/" + name + ".safetensors";
}

}  // namespace hero::nn::checkpoints

#pragma once
// Folders of Hugging Face's transformers: what reading and writing one may be asked.
#include <optional>
#include <string>
#include <vector>

#include <hero/core/device.h>
#include <hero/core/dtype.h>

namespace hero::nn {

struct PretrainedOptions {
  DType dtype = kFloat32;  ///< of the model; files may have any floating dtype
  Device device = kCpu;    ///< where the weights go, one by one
  /// In place of the rates of dropout that config.json names.
  std::optional<double> dropout = {};
  /// Keys of config.json that are unknown here and do not change what the model computes. Any other
  /// unknown key is an Error.
  std::vector<std::string> ignore_keys = {};
};

struct SavePretrainedOptions {
  int64_t max_shard_bytes = 5'000'000'000;  ///< more than one file where the weights are larger
};

}  // namespace hero::nn

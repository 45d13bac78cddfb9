#pragma once
// How loaders read the numbers of their states.
#include <string>
#include <vector>

#include <hero/core/safetensors.h>

namespace hero::nn::data {

/// The int64 number of this name. Throws an Error that begins with `op` if the state has none.
int64_t state_number(const char* op, const std::vector<core::NamedArray>& state,
                     const std::string& name);

}  // namespace hero::nn::data

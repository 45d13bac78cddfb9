#pragma once
// A number with its name, as training reports it.
#include <string>

namespace hero::nn {

/// {"train/loss", 0.5}; NaN and infinities are values too.
struct Metric {
  std::string name;
  double value = 0.0;
};

}  // namespace hero::nn

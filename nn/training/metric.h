#pragma once
// A named number that training reports.
#include <string>

namespace hero::nn {

/// A name and a value, such as {"train/loss", 0.5}; NaN and infinities are allowed.
struct Metric {
  std::string name;
  double value = 0.0;
};

}  // namespace hero::nn

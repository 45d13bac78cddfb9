#pragma once
// Sizes of two-dimensional windows.
#include <hero/autograd/nn_ops.h>

namespace hero::nn {

/// A number for height and one for width; a single number stands for both.
struct Size2 {
  int64_t height = 0, width = 0;
  /// The same number for both.
  Size2(int64_t both) : height(both), width(both) {}
  /// A number for each.
  Size2(int64_t h, int64_t w) : height(h), width(w) {}
  /// {height, width}.
  Size2(const Pair& pair) : height(pair[0]), width(pair[1]) {}
  operator Pair() const { return {height, width}; }
  bool operator==(const Size2&) const = default;
};

}  // namespace hero::nn

#pragma once
// Sizes of windows of two and of three dimensions.
#include <initializer_list>
#include <vector>

#include <hero/autograd/ops/conv/window_sizes.h>

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

/// Numbers for depth, height and width; a single number stands for all three.
struct Size3 {
  int64_t depth = 0, height = 0, width = 0;
  /// The same number for all three.
  Size3(int64_t all) : depth(all), height(all), width(all) {}
  /// A number for each.
  Size3(int64_t d, int64_t h, int64_t w) : depth(d), height(h), width(w) {}
  /// {depth, height, width}.
  Size3(const Triple& three) : depth(three[0]), height(three[1]), width(three[2]) {}
  operator Triple() const { return {depth, height, width}; }
  bool operator==(const Size3&) const = default;
};

/// One number, or one for each dimension.
template <class T>
class OneOrEach : public std::vector<T> {
 public:
  /// No number.
  OneOrEach() = default;
  /// The same number for all dimensions.
  OneOrEach(T one) : std::vector<T>{one} {}
  /// A number for each dimension.
  OneOrEach(std::initializer_list<T> each) : std::vector<T>(each) {}
  /// A number for each dimension.
  OneOrEach(const std::vector<T>& each) : std::vector<T>(each) {}
};

}  // namespace hero::nn

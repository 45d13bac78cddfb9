#pragma once
// Sizes, strides and paddings of windows over images and volumes.
#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

namespace hero {

/// A number for each of N dimensions; a single number stands for all of them, as in
/// max_pool2d(x, 2).
template <size_t N>
struct WindowSizes : std::array<int64_t, N> {
  /// Zeros.
  constexpr WindowSizes() : std::array<int64_t, N>{} {}
  /// The same number for all dimensions.
  constexpr WindowSizes(int64_t all) { this->fill(all); }
  /// A number for height and one for width.
  constexpr WindowSizes(int64_t height, int64_t width) requires(N == 2)
      : std::array<int64_t, N>{height, width} {}
  /// Numbers for depth, height and width.
  constexpr WindowSizes(int64_t depth, int64_t height, int64_t width) requires(N == 3)
      : std::array<int64_t, N>{depth, height, width} {}
  /// The numbers of an array.
  constexpr WindowSizes(const std::array<int64_t, N>& each) : std::array<int64_t, N>(each) {}
};
/// Height and width.
using Pair = WindowSizes<2>;
/// Depth, height and width.
using Triple = WindowSizes<3>;

}  // namespace hero

/// \cond
// Lets a program write `const auto [height, width] = pair`.
template <size_t N>
struct std::tuple_size<hero::WindowSizes<N>> : std::integral_constant<size_t, N> {};
template <size_t I, size_t N>
struct std::tuple_element<I, hero::WindowSizes<N>> {
  using type = int64_t;
};
/// \endcond

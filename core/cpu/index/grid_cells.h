#pragma once
// For a tile of points of grid sampling: the pixels from which each point's value is computed, and
// their weights.
#include <algorithm>
#include <bit>

#include <hero/core/device/backend_arguments.h>
#include <hero/core/kernels/elementwise.h>

namespace hero::core::cpu {

/// The sizes of a sampling: `images` of `channels` planes, each image at `points` points of its
/// own.
struct Sampled {
  GridSampling how;
  int64_t images, channels, points;
  int64_t size[3];  // of a plane, in `dims` dimensions
  int dims;

  int64_t plane() const { return size[0] * size[1] * (dims == 3 ? size[2] : 1); }
};

inline constexpr int64_t kTile = 64;  // points

/// Calls body(i) for the points of a tile. They are many enough for vectors, and their loops are
/// not worth the code of unrolled ones.
template <class Body>
[[gnu::always_inline]] inline void each_point(Body&& body) {
#pragma GCC unroll 1
#pragma GCC ivdep
  for (int64_t i = 0; i < kTile; ++i) body(i);
}

/// All ones or zero, as wide as T.
template <class T>
using Mask = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

/// x where the mask is all ones, else 0.
template <class T>
T masked(T x, Mask<T> mask) {
  return std::bit_cast<T>(std::bit_cast<Mask<T>>(x) & mask);
}

/// A tile's coordinates along a dimension, in pixels.
template <class T>
struct Coordinates {
  T at[kTile];
  T slope[kTile];        ///< the derivative with respect to the grid's number
  Mask<T> moves[kTile];  ///< zero where the derivative is: NaN, or clamped

  /// From the grid's numbers, `step` apart; NaN counts as -1. Behind `count` there is a -1, too.
  [[gnu::noinline]] void place(const T* grid, int64_t step, int64_t count, int64_t size,
                               bool align_corners) {
    const T n = static_cast<T>(size),
            half = static_cast<T>((static_cast<double>(size) - 1.0) / 2.0);
    each_point([&](int64_t i) { at[i] = i < count ? grid[i * step] : T(-1); });
    each_point([&](int64_t i) {
      moves[i] = at[i] == at[i] ? Mask<T>(-1) : Mask<T>(0);
      const T shifted = (at[i] == at[i] ? at[i] : T(-1)) + T(1);
      at[i] = align_corners ? shifted * half : (shifted * n - T(1)) / T(2);
      slope[i] = align_corners ? half : n / T(2);
    });
  }
  /// Brings the coordinates into the image.
  [[gnu::noinline]] void pad(GridSampling::Outside outside, int64_t size, bool align_corners) {
    if (outside == GridSampling::Outside::zeros) return;
    if (outside == GridSampling::Outside::reflection) reflect(size, align_corners);
    const T last = static_cast<T>(size - 1);
    each_point([&](int64_t i) {
      const bool is_inside = (at[i] > T(0)) & (at[i] < last);
      moves[i] &= is_inside ? Mask<T>(-1) : Mask<T>(0);
      at[i] = kernels::Clamp{}(at[i], T(0), last);
    });
  }

 private:
  // At the corner pixels' centres or outer edges until they lie between them.
  void reflect(int64_t size, bool align_corners) {
    const T low = align_corners ? T(0) : T(-0.5);
    const T span = static_cast<T>(align_corners ? size - 1 : size);
    if (span == T(0)) {
      each_point([&](int64_t i) { at[i] *= T(0); });
      return;
    }
    each_point([&](int64_t i) {
      const T far = at[i] - low, distance = math::abs(far), flips = math::floor(distance / span);
      const T extra = distance - flips * span;
      const bool is_odd = math::floor(flips / T(2)) * T(2) != flips;
      at[i] = (is_odd ? span - extra : extra) + low;
      slope[i] *= is_odd ? -kernels::Sign{}(far) : kernels::Sign{}(far);
    });
  }
};

/// The taps of a tile along a dimension.
template <class T>
struct GridAxis : Coordinates<T> {
  static constexpr int kMaxTaps = 4;
  int32_t index[kMaxTaps][kTile];  ///< within the image
  Mask<T> inside[kMaxTaps][kTile];
  T weight[kMaxTaps][kTile];
  T weight_slope[kMaxTaps][kTile];  ///< the derivative of the weight

  void find_taps(const GridSampling& how, int64_t size) {
    if (how.taps == 1) return nearest(size);
    how.taps == 2 ? linear(size) : cubic(how, size);
  }

 private:
  using Coordinates<T>::at;

  [[gnu::noinline]] void set_tap(int tap, const T* whole, int64_t size) {
    const T last = static_cast<T>(size - 1);
    each_point([&](int64_t i) {
      const bool is_inside = (whole[i] >= T(0)) & (whole[i] <= last);
      inside[tap][i] = is_inside ? Mask<T>(-1) : Mask<T>(0);
      const T number = whole[i] == whole[i] ? whole[i] : T(0);
      index[tap][i] = static_cast<int32_t>(kernels::Clamp{}(number, T(0), last));
    });
  }

  void nearest(int64_t size) {
    T whole[kTile];
    each_point([&](int64_t i) {
      whole[i] = math::round(at[i]);
      weight[0][i] = T(1);
      weight_slope[0][i] = T(0);
    });
    set_tap(0, whole, size);
  }

  void linear(int64_t size) {
    T below[kTile], above[kTile];
    each_point([&](int64_t i) {
      below[i] = math::floor(at[i]);
      above[i] = below[i] + T(1);
      const T part = at[i] - below[i];
      weight[0][i] = T(1) - part;
      weight[1][i] = part;
      weight_slope[0][i] = T(-1);
      weight_slope[1][i] = T(1);
    });
    set_tap(0, below, size);
    set_tap(1, above, size);
  }

  // Keys' kernel with a = -0.75: inner within a pixel, outer from one pixel to two.
  static constexpr T kA = T(-0.75);
  static T inner(T d) { return (d * (kA + T(2)) - (kA + T(3))) * d * d + T(1); }
  static T outer(T d) { return (((d - T(5)) * d + T(8)) * d - T(4)) * kA; }
  static T inner_slope(T d) { return (T(3) * (kA + T(2)) * d - T(2) * (kA + T(3))) * d; }
  static T outer_slope(T d) { return ((T(3) * d - T(10)) * d + T(8)) * kA; }

  void cubic(const GridSampling& how, int64_t size) {
    T below[kTile];
    each_point([&](int64_t i) {
      below[i] = math::floor(at[i]);
      const T part = at[i] - below[i];
      weight[0][i] = outer(part + T(1));
      weight[1][i] = inner(part);
      weight[2][i] = inner(T(1) - part);
      weight[3][i] = outer(T(2) - part);
      weight_slope[0][i] = outer_slope(part + T(1));
      weight_slope[1][i] = inner_slope(part);
      weight_slope[2][i] = -inner_slope(T(1) - part);
      weight_slope[3][i] = -outer_slope(T(2) - part);
    });
    for (int tap = 0; tap < 4; ++tap) {
      Coordinates<T> place = {};
      each_point([&](int64_t i) { place.at[i] = below[i] + static_cast<T>(tap - 1); });
      place.pad(how.outside, size, how.align_corners);
      set_tap(tap, place.at, size);
    }
  }
};

/// The pixels of a tile's points: along the first dimension slowest.
template <class T>
struct Cells {
  static constexpr int kMaxTaps = 16;
  GridAxis<T> axes[3];
  int taps;                        ///< in all dimensions
  int32_t place[kMaxTaps][kTile];  ///< in a plane
  Mask<T> inside[kMaxTaps][kTile];
  T weight[kMaxTaps][kTile];

  /// Of `count` points, from their numbers in the grid on.
  [[gnu::noinline]] void find(const Sampled& s, const T* grid, int64_t count) {
    taps = 1;
    for (int d = 0; d < s.dims; ++d) {
      // The grid names the last dimension first.
      axes[d].place(grid + (s.dims - 1 - d), s.dims, count, s.size[d], s.how.align_corners);
      if (s.how.taps != 4) axes[d].pad(s.how.outside, s.size[d], s.how.align_corners);
      axes[d].find_taps(s.how, s.size[d]);
      taps *= s.how.taps;
    }
    for (int tap = 0; tap < taps; ++tap) join(s, tap);
  }
  /// The tap along dimension d of a tap of the cell.
  static int along(const Sampled& s, int d, int tap) {
    for (int i = s.dims - 1; i > d; --i) tap /= s.how.taps;
    return tap % s.how.taps;
  }

 private:
  void join(const Sampled& s, int tap) {
    const int first = along(s, 0, tap);
    std::copy_n(axes[0].index[first], kTile, place[tap]);
    std::copy_n(axes[0].inside[first], kTile, inside[tap]);
    std::copy_n(axes[0].weight[first], kTile, weight[tap]);
    for (int d = 1; d < s.dims; ++d) {
      const int own = along(s, d, tap);
      const auto size = static_cast<int32_t>(s.size[d]);
      each_point([&](int64_t i) {
        place[tap][i] = place[tap][i] * size + axes[d].index[own][i];
        inside[tap][i] &= axes[d].inside[own][i];
        weight[tap][i] *= axes[d].weight[own][i];
      });
    }
  }
};

}  // namespace hero::core::cpu

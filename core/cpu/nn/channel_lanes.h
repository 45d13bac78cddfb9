#pragma once
// Interleaves planes of neighbouring channels, and separates them again, so that a vector holds one
// position of several channels. Only core/cpu/nn/*.cpp includes this.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <hero/core/cpu/products/gemm_pack.h>
#include <hero/core/kernels/half.h>

namespace hero::core::cpu {

inline constexpr int64_t kChannelLanes = micro::kLanes<float>;

/// Elements of T in a vector.
template <class T>
inline constexpr int64_t kLaneElements = kChannelLanes* static_cast<int64_t>(sizeof(float) /
                                                                             sizeof(T));

/// Calls body(first, size) for pieces that together are [0, width): their sizes are among `sizes`,
/// in ascending order from 1 on, and pieces may overlap. Kernels for few sizes are small, and four
/// sums or more are added to faster than one.
template <size_t count, class Body>
void each_piece(const std::array<int, count>& sizes, int64_t width, const Body& body) {
  constexpr int64_t kLeast = 4;
  for (int64_t first = 0; first < width;) {
    const int64_t wanted = std::max(width - first, std::min(kLeast, width));
    size_t i = 0;
    while (i + 1 < count && sizes[i] < wanted) ++i;
    while (sizes[i] > width) --i;
    const int64_t at = std::min(first, width - sizes[i]);
    body(at, sizes[i]);
    first = at + sizes[i];
  }
}

/// to [kLaneElements<T>, kChannelLanes], as floats, from `channels` rows of as many elements,
/// `step` apart. Elements of bfloat16 are turned in pairs, and then taken apart.
template <class T>
[[gnu::noinline]] void turn_block(int64_t channels, const T* from, int64_t step, float* to) {
  using Bits [[gnu::vector_size(sizeof(micro::Vector<float>))]] = uint32_t;
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, BFloat16>);
  micro::Vector<float> rows[kChannelLanes];
#pragma GCC unroll 16
  for (int64_t i = 0; i < kChannelLanes; ++i) {
    std::memcpy(&rows[i], from + std::min(i, channels - 1) * step, sizeof(rows[i]));
  }
  micro::exchange_all<float, kChannelLanes / 2>(rows);
#pragma GCC unroll 16
  for (int64_t i = 0; i < kChannelLanes; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      micro::store<float>(to + i * kChannelLanes, rows[i]);
    } else {
      Bits pairs;
      std::memcpy(&pairs, &rows[i], sizeof(pairs));
      const Bits first = pairs << 16, second = pairs & 0xFFFF0000u;
      std::memcpy(to + 2 * i * kChannelLanes, &first, sizeof(first));
      std::memcpy(to + (2 * i + 1) * kChannelLanes, &second, sizeof(second));
    }
  }
}

/// Calls body(p) for the first elements of blocks of `each` of `count` or more; the last one may
/// overlap with the one before.
template <class Body>
void each_block(int64_t count, int64_t each, const Body& body) {
  for (int64_t p = 0; p + each <= count; p += each) body(p);
  if (count % each != 0) body(count - each);
}

/// to [count, kChannelLanes], as floats, from `channels` rows of `count` elements, `step` apart.
template <class T>
void turn_channels(int64_t channels, int64_t count, const T* from, int64_t step, float* to) {
  constexpr int64_t each = kLaneElements<T>;
  if (count >= each) {
    return each_block(count, each, [=](int64_t p) {
      turn_block(channels, from + p, step, to + p * kChannelLanes);
    });
  }
  for (int64_t p = 0; p < count; ++p) {
    for (int64_t c = 0; c < kChannelLanes; ++c) {
      to[p * kChannelLanes + c] = static_cast<float>(from[std::min(c, channels - 1) * step + p]);
    }
  }
}

/// `channels` rows of `count` elements, `step` apart, from [count, kChannelLanes].
inline void turn_places(int64_t channels, int64_t count, const float* from, float* to,
                        int64_t step) {
  if (count >= kChannelLanes) {
    return each_block(count, kChannelLanes, [=](int64_t p) {
      micro::transpose_lanes(kChannelLanes, channels, from + p * kChannelLanes, kChannelLanes,
                             to + p, step);
    });
  }
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t p = 0; p < count; ++p) to[c * step + p] = from[p * kChannelLanes + c];
  }
}

}  // namespace hero::core::cpu

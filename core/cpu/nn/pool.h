#pragma once
// Helpers of max pooling and average pooling.
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/nn/window.h>

namespace hero::core::cpu {

/// Average pooling, as call::Pool describes it.
void average_pool(const Array& x, const Window& window, const Array& out);

/// Calls body(plane, place_y, place_x, taps_y, taps_x) for every place of every plane of the pooled
/// array.
template <class Body>
void each_place(const Array& pooled, const Shape& image, const Window& window, int64_t begin,
                int64_t end, Body&& body) {
  for (int64_t p = begin; p < end; ++p) {
    for (int64_t y = 0; y < pooled.shape()[2]; ++y) {
      const Taps rows = taps_at(window, 0, y, image[2]);
      for (int64_t x = 0; x < pooled.shape()[3]; ++x) {
        body(p, y, x, rows, taps_at(window, 1, x, image[3]));
      }
    }
  }
}

inline int64_t planes_grain(const Array& pooled, const Window& window) {
  // Of a window larger than the image, only the part on the image counts.
  const int64_t taps = std::min(window.kernel[0], kGrain) * std::min(window.kernel[1], kGrain);
  const int64_t work = std::min(pooled.shape()[2] * pooled.shape()[3], kGrain) * taps;
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work));
}

/// A row of the image as T.
template <class T, class S>
const T* row_as(const S* row, int64_t count, T* room) {
  if constexpr (std::is_same_v<T, S>) return row;
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) room[i] = convert<T>(row[i]);
  return room;
}

}  // namespace hero::core::cpu

#pragma once
// Sliding windows of many kinds, for planes of 7 x 8.
#include "cuda/close.h"

#include <hero/core/device/backend.h>

namespace hero_test {

inline int64_t places(const hero::core::Window& w, int axis, int64_t size) {
  const int64_t reach = w.dilation[axis] * (w.kernel[axis] - 1) + 1;
  return (size + 2 * w.padding[axis] - reach) / w.stride[axis] + 1;
}

inline std::vector<hero::core::Window> windows() {
  std::vector<hero::core::Window> all;
  const auto add = [&](int64_t kernel_y, int64_t kernel_x, int64_t stride_y, int64_t stride_x,
                       int64_t padding, int64_t dilation_y, int64_t dilation_x) {
    all.push_back({{kernel_y, kernel_x},
                   {stride_y, stride_x},
                   {padding, padding},
                   {dilation_y, dilation_x},
                   true});
    all.push_back(all.back());
    all.back().count_padding = false;
  };
  add(1, 1, 1, 1, 0, 1, 1);
  add(2, 2, 2, 2, 0, 1, 1);  // side by side
  add(3, 2, 1, 3, 1, 1, 2);
  add(3, 2, 2, 2, 1, 2, 1);
  add(3, 2, 3, 1, 0, 1, 2);
  add(3, 3, 1, 1, 1, 1, 1);  // as many places as elements
  add(2, 3, 4, 4, 1, 1, 1);  // elements that no place sees
  add(7, 8, 1, 1, 0, 1, 1);  // one place
  return all;
}

}  // namespace hero_test

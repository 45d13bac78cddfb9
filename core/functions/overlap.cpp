#include <algorithm>
#include <utility>
#include <vector>

#include <hero/core/functions/overlap.h>

namespace hero::core {

namespace {

using Side = std::pair<int64_t, int64_t>;  // stride and size of a dimension

// Whether each dimension, from the smallest stride on, steps over all that came before it.
bool nested(const std::vector<Side>& sides) {
  int64_t reach = 0;  // from the first to the last element so far
  for (const auto& [stride, size] : sides) {
    if (stride <= reach) return false;
    reach += stride * (size - 1);
  }
  return true;
}

// Whether a place occurs twice, by looking at all of them.
bool repeats(const std::vector<Side>& sides) {
  std::vector<int64_t> places{0};
  for (const auto& [stride, size] : sides) {
    const size_t before = places.size();
    for (int64_t i = 1; i < size; ++i) {
      for (size_t j = 0; j < before; ++j) places.push_back(places[j] + i * stride);
    }
  }
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end()) != places.end();
}

}  // namespace

bool overlaps_itself(const Array& x) {
  if (x.is_contiguous() || x.numel() <= 1) return false;
  std::vector<Side> sides;
  for (int i = 0; i < x.ndim(); ++i) {
    if (x.shape()[i] == 1) continue;
    if (x.strides()[i] == 0) return true;
    sides.emplace_back(x.strides()[i], x.shape()[i]);
  }
  std::sort(sides.begin(), sides.end());
  return !nested(sides) && repeats(sides);
}

void check_no_overlap(const char* op, const Array& out) {
  check(out.is_contiguous() || !overlaps_itself(out), op, ": several elements of shape ",
        out.shape(), " with strides ", out.strides(), " lie in one place; clone() it first");
}

}  // namespace hero::core

#pragma once
// The order of sums that dist::Order::tree defines, as its definition says it.
#include <cstddef>
#include <vector>

namespace hero_test {

/// Element `element` of values[begin] to values[end - 1] together: of the first p of them and of
/// the rest, p the largest power of two below their number.
template <class T, class Combine>
T tree_of(const std::vector<std::vector<T>>& values, size_t element, size_t begin, size_t end,
          const Combine& combine) {
  if (end - begin == 1) return values[begin][element];
  size_t p = 1;
  while (2 * p < end - begin) p *= 2;
  return combine(tree_of(values, element, begin, begin + p, combine),
                 tree_of(values, element, begin + p, end, combine));
}

}  // namespace hero_test

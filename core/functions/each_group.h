#pragma once
// Lists whose items belong together by some key: by device, say.
#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace hero::core {

/// Calls body(key, items) for the items of each key(item), in the order in which keys and items
/// stand in the list.
template <class T, class Key, class Body>
void each_group(std::vector<T> items, const Key& key, const Body& body) {
  auto first = items.begin();
  while (first != items.end()) {
    const auto shared = std::invoke(key, *first);
    const auto end = std::stable_partition(
        first, items.end(), [&](const T& item) { return std::invoke(key, item) == shared; });
    body(shared, std::span<const T>(first, end));
    first = end;
  }
}

}  // namespace hero::core

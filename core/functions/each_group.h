#pragma once
// each_group(): the items of a list, grouped by a key, such as the device.
#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace hero::core {

/// Calls body(key, items) once for each value of key(item) with all items of that key. Keys come in
/// the order of their first items, and items in the order of the list.
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

#include <algorithm>
#include <iterator>

#include <hero/core/io/swap_slots.h>

namespace hero::core {

std::optional<int64_t> SwapSlots::take(int64_t bytes) {
  const auto found = std::find_if(free_.begin(), free_.end(),
                                  [&](const auto& part) { return part.second >= bytes; });
  if (found == free_.end()) return std::nullopt;
  const auto [first, size] = *found;
  free_.erase(found);
  if (size > bytes) free_[first + bytes] = size - bytes;
  used_ += bytes;
  return first;
}

void SwapSlots::give_back(int64_t first, int64_t bytes) {
  used_ -= bytes;
  const auto after = free_.lower_bound(first);
  auto at = free_.end();
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == first) at = before;
  }
  if (at == free_.end()) {
    at = free_.emplace_hint(after, first, bytes);
  } else {
    at->second += bytes;
  }
  if (after != free_.end() && at->first + at->second == after->first) {
    at->second += after->second;
    free_.erase(after);
  }
}

int64_t SwapSlots::largest() const {
  int64_t most = 0;
  for (const auto& part : free_) most = std::max(most, part.second);
  return most;
}

}  // namespace hero::core

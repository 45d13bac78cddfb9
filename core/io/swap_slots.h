#pragma once
// Which parts of a swap file are free.
#include <cstdint>
#include <map>
#include <optional>

namespace hero::core {

/// Room from 0 to `bytes`, given out in parts: the first that is large enough, and neighbours that
/// come back are joined.
class SwapSlots {
 public:
  explicit SwapSlots(int64_t bytes) {
    if (bytes > 0) free_[0] = bytes;
  }

  /// Where a part of `bytes` begins; empty when none is large enough.
  std::optional<int64_t> take(int64_t bytes);
  void give_back(int64_t first, int64_t bytes);
  /// Bytes that are given out.
  int64_t used() const { return used_; }
  /// Bytes of the largest part that is free.
  int64_t largest() const;

 private:
  std::map<int64_t, int64_t> free_;  // begin, bytes
  int64_t used_ = 0;
};

}  // namespace hero::core

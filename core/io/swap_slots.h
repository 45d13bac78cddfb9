#pragma once
// SwapSlots: the free parts of a swap file.
#include <cstdint>
#include <map>
#include <optional>

namespace hero::core {

/// Allocates parts of the bytes 0 to `bytes` by first fit; neighbouring free parts are joined.
class SwapSlots {
 public:
  explicit SwapSlots(int64_t bytes) {
    if (bytes > 0) free_[0] = bytes;
  }

  /// Allocates a part of `bytes` and returns where it begins; empty if no free part is large
  /// enough.
  std::optional<int64_t> take(int64_t bytes);
  void give_back(int64_t first, int64_t bytes);
  /// Bytes of all allocated parts.
  int64_t used() const { return used_; }
  /// Bytes of the largest free part.
  int64_t largest() const;

 private:
  std::map<int64_t, int64_t> free_;  // begin, bytes
  int64_t used_ = 0;
};

}  // namespace hero::core

#pragma once
// Sizes of the processor's caches, in bytes.
#include <cstdint>

namespace hero::core::cpu {

inline constexpr int64_t kCacheLine = 64;

/// The size of a usual last-level cache. Larger copies bypass the caches.
inline constexpr int64_t kCachedBytes = int64_t{32} << 20;

}  // namespace hero::core::cpu

#pragma once
#include <cstdint>

namespace hero::cuda {

/// The memory of a caching allocator in bytes, where reserved = allocated + waiting + cached, and
/// counts of its calls.
struct MemoryStats {
  int64_t allocated = 0;           ///< in blocks that are in use, with rounding
  int64_t waiting = 0;             ///< in freed blocks that another stream may still be using
  int64_t reserved = 0;            ///< in all segments taken from the device
  int64_t peak_allocated = 0;      ///< the largest `allocated` since peaks were reset
  int64_t peak_reserved = 0;       ///< the largest `reserved` since peaks were reset
  int64_t allocations = 0;         ///< blocks that were allocated so far
  int64_t frees = 0;               ///< blocks that were freed so far
  int64_t device_allocations = 0;  ///< segments that were allocated on the device so far
  int64_t device_frees = 0;        ///< segments that were returned to the device so far
  int64_t retries = 0;             ///< times that memory ran out and the cache was emptied

  int64_t cached() const { return reserved - allocated - waiting; }
};

}  // namespace hero::cuda

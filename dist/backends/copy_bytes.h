#pragma once
#include <cstddef>
#include <cstdint>

namespace hero::dist {

/// Copies `bytes` bytes of a call that moves `whole` bytes in all; does nothing if `from` is `to`.
/// Otherwise the ranges must not overlap. If `whole` is too large for the caches, non-temporal
/// stores bypass them, so that the overwritten memory is not read first: twice as fast on two cores
/// at 64 MiB, but half as fast for data that fit into a cache.
void copy_bytes(const std::byte* from, std::byte* to, int64_t bytes, int64_t whole);

}  // namespace hero::dist

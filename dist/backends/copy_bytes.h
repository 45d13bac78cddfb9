#pragma once
#include <cstddef>
#include <cstdint>

namespace hero::dist {

/// Copies `bytes` bytes, of a call that moves `whole` in all, unless they already lie there. The
/// ranges may not overlap otherwise. What is too large for the caches goes past them, which saves
/// reading what is overwritten: twice as fast on two cores at 64 MiB, half as fast in a cache.
void copy_bytes(const std::byte* from, std::byte* to, int64_t bytes, int64_t whole);

}  // namespace hero::dist

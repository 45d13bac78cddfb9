#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace hero::core {

/// The CRC-32C (Castagnoli) of `bytes`, of which `before` is that of the bytes that came first:
/// crc32c(b, crc32c(a)) is the sum of a and b laid one behind the other. RFC 3720, appendix B.4.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace hero::core

#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace hero::core {

/// The CRC-32C (Castagnoli) of the bytes before, whose CRC is `before`, followed by `bytes`:
/// crc32c(b, crc32c(a)) is the CRC of a followed by b. RFC 3720, appendix B.4.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace hero::core

#pragma once
// CRC-32C: the checksum of TensorBoard's files, of checkpoints and of what lies in a swap file.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace hero::core {

/// The CRC-32C (Castagnoli) of the bytes before, whose CRC is `before`, followed by `bytes`:
/// crc32c(b, crc32c(a)) is the CRC of a followed by b. RFC 3720, appendix B.4.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);
uint32_t crc32c(std::string_view text);

/// The same, computed only by tables; crc32c() uses the processor's instruction if it was compiled
/// for it.
uint32_t crc32c_by_tables(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace hero::core

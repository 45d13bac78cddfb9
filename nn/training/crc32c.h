#pragma once
// CRC-32C (Castagnoli, polynomial 0x1EDC6F41): the checksum of TensorBoard's files and of
// checkpoints. RFC 3720, appendix B.4.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hero::nn {

/// The checksum of `bytes`, or, given the checksum of earlier bytes, that of both together.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);
uint32_t crc32c(std::string_view text);

/// The same, computed only by tables; crc32c() uses the processor's instruction if it was compiled
/// for it.
uint32_t crc32c_by_tables(std::span<const std::byte> bytes, uint32_t before = 0);

/// Size and checksum of a file.
struct FileDigest {
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
  bool operator==(const FileDigest&) const = default;
};
FileDigest digest_file(const std::string& path);

}  // namespace hero::nn

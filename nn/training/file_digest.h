#pragma once
// The size and checksum of a file, which a checkpoint keeps of each of its files.
#include <cstdint>
#include <string>

namespace hero::nn {

/// The size of a file in bytes and its CRC-32C (core/io/crc32c.h).
struct FileDigest {
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
  bool operator==(const FileDigest&) const = default;
};
/// Reads the file. Throws an Error if it cannot be read.
FileDigest digest_file(const std::string& path);

}  // namespace hero::nn

#pragma once
// SHA-256: the checksum that names a file's bytes. FIPS 180-4.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace hero {

/// The hash of bytes that come piece by piece.
class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  /// The hash of all bytes so far, as 64 hexadecimal digits; nothing may be added afterwards.
  std::string finish();

 private:
  friend std::string sha256_by_words(std::span<const std::byte> bytes);

  void block(const std::byte* bytes);
  void block_by_words(const std::byte* bytes);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> rest_ = {};  // bytes that do not fill a block yet
  uint64_t size_ = 0;
  bool by_words_ = false;
};

/// The hash of `bytes`.
std::string sha256(std::span<const std::byte> bytes);

/// The same without the processor's instructions, which sha256() uses where there are any.
std::string sha256_by_words(std::span<const std::byte> bytes);

/// Size and hash of a file.
struct FileHash {
  uint64_t bytes = 0;
  std::string sha256;
  bool operator==(const FileHash&) const = default;
};
FileHash hash_file(const std::string& path);

}  // namespace hero

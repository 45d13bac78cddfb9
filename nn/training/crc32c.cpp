#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <hero/core/io/file.h>
#include <hero/nn/training/crc32c.h>

namespace hero::nn {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // bits reversed
constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

// tables[k][b]: the checksum of byte b with k zero bytes behind it.
constexpr auto kTables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t b = 0; b < 256; ++b) {
      const uint32_t before = tables[k - 1][b];
      tables[k][b] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}();

uint64_t load_word(const std::byte* from) {
  uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

uint32_t add_word(uint32_t crc, uint64_t word) {
#ifdef __SSE4_2__
  return static_cast<uint32_t>(__builtin_ia32_crc32di(crc, word));
#else
  word ^= crc;  // the lowest byte is the first
  uint32_t sum = 0;
  for (size_t k = 0; k < 8; ++k) sum ^= kTables[7 - k][(word >> (8 * k)) & 0xFF];
  return sum;
#endif
}

uint32_t add_byte(uint32_t crc, std::byte byte) {
  return (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint32_t>(byte)) & 0xFF];
}

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t crc = ~before;
  while (bytes.size() >= 8) {
    crc = add_word(crc, load_word(bytes.data()));
    bytes = bytes.subspan(8);
  }
  for (std::byte byte : bytes) crc = add_byte(crc, byte);
  return ~crc;
}

uint32_t crc32c(std::string_view text) { return crc32c(std::as_bytes(std::span(text)), 0); }

uint32_t crc32c_by_tables(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t crc = ~before;
  for (std::byte byte : bytes) crc = add_byte(crc, byte);
  return ~crc;
}

FileDigest digest_file(const std::string& path) {
  const InputFile file(path);
  FileDigest digest{file.size(), 0};
  std::vector<std::byte> chunk(std::min(file.size(), kChunkBytes));
  for (uint64_t at = 0; at < file.size(); at += kChunkBytes) {
    const std::span part = std::span(chunk).first(std::min(kChunkBytes, file.size() - at));
    file.read(at, part);
    digest.crc32c = crc32c(part, digest.crc32c);
  }
  return digest;
}

}  // namespace hero::nn

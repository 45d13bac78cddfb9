#include <array>
#include <cstring>

#include <hero/core/io/crc32c.h>

namespace hero::core {
namespace {

constexpr uint32_t kCrcPolynomial = 0x82F63B78;  // bits reversed

// tables[k][b]: the checksum of byte b with k zero bytes behind it.
constexpr auto kCrcTables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCrcPolynomial : 0);
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
  for (size_t k = 0; k < 8; ++k) sum ^= kCrcTables[7 - k][(word >> (8 * k)) & 0xFF];
  return sum;
#endif
}

uint32_t add_byte(uint32_t crc, std::byte byte) {
  return (crc >> 8) ^ kCrcTables[0][(crc ^ static_cast<uint32_t>(byte)) & 0xFF];
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

}  // namespace hero::core

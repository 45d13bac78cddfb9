#include <array>
#include <cstring>

#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

#include <hero/core/io/crc32c.h>

namespace hero::core {

#ifdef __SSE4_2__

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
  uint64_t sum = ~before;
  while (bytes.size() >= sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    sum = _mm_crc32_u64(sum, word);
    bytes = bytes.subspan(sizeof word);
  }
  auto narrow = static_cast<uint32_t>(sum);
  for (const std::byte byte : bytes) narrow = _mm_crc32_u8(narrow, static_cast<uint8_t>(byte));
  return ~narrow;
}

#else

namespace {

constexpr std::array<uint32_t, 256> crc_table() {
  constexpr uint32_t kReversedPolynomial = 0x82F63B78;
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) != 0 ? kReversedPolynomial : 0);
    table[byte] = sum;
  }
  return table;
}

constexpr auto kCrcTable = crc_table();

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t sum = ~before;
  for (const std::byte byte : bytes) {
    sum = kCrcTable[(sum ^ static_cast<uint32_t>(byte)) & 0xFF] ^ (sum >> 8);
  }
  return ~sum;
}

#endif

}  // namespace hero::core

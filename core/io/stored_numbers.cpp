#include <algorithm>
#include <cstring>
#include <limits>

#include <hero/core/io/stored_numbers.h>

namespace hero::core {

namespace {

template <class T>
int64_t widen_to(std::span<const std::byte> stored, const StoredNumber& number, std::byte* out) {
  const auto size = static_cast<size_t>(number.bytes);
  const auto count = static_cast<int64_t>(stored.size() / size);
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = stored_integer(stored.subspan(static_cast<size_t>(i) * size), number);
    if (!number.is_signed && bits > kMost) return i;
    const auto value = static_cast<T>(static_cast<int64_t>(bits));
    std::memcpy(out + static_cast<size_t>(i) * sizeof(T), &value, sizeof(T));
  }
  return count;
}

}  // namespace

void reverse_numbers(std::span<std::byte> numbers, int64_t bytes) {
  if (bytes == 1) return;
  const auto end = numbers.end();
  for (auto one = numbers.begin(); one != end; one += bytes) std::reverse(one, one + bytes);
}

uint64_t stored_integer(std::span<const std::byte> stored, const StoredNumber& number) {
  uint64_t bits = 0;
  for (int64_t k = 0; k < number.bytes; ++k) {
    const int64_t at = number.is_big_endian ? k : number.bytes - 1 - k;
    bits = bits << 8 | std::to_integer<uint64_t>(stored[static_cast<size_t>(at)]);
  }
  if (!number.is_signed || number.bytes == 8) return bits;
  const uint64_t sign = uint64_t{1} << (8 * number.bytes - 1);
  return (bits ^ sign) - sign;
}

int64_t widen_integers(std::span<const std::byte> stored, const StoredNumber& number, DType dtype,
                       std::byte* out) {
  return dtype == kInt32 ? widen_to<int32_t>(stored, number, out)
                         : widen_to<int64_t>(stored, number, out);
}

}  // namespace hero::core

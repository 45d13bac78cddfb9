#pragma once
// Reading UTF-8 one code point at a time.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hero::nn::data {

/// A code point in a text.
struct CodePoint {
  uint32_t value;  ///< kInvalidCodePoint for a byte that is not UTF-8
  size_t length;   ///< bytes, at least 1
};
inline constexpr uint32_t kInvalidCodePoint = 0xffffffff;

/// The code point that begins at byte `at` < text.size(). Overlong forms, surrogates, numbers above
/// 10ffff and truncated sequences are invalid, byte by byte.
inline CodePoint code_point_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) {
    return static_cast<uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const uint32_t lead = byte(at);
  if (lead < 0x80) return {lead, 1};
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || length > text.size() - at) return {kInvalidCodePoint, 1};
  uint32_t value = lead & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const uint32_t next = byte(at + i);
    if ((next & 0xc0) != 0x80) return {kInvalidCodePoint, 1};
    value = value << 6 | (next & 0x3f);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  const bool surrogate = value >= 0xd800 && value < 0xe000;
  if (overlong || surrogate || value > 0x10ffff) return {kInvalidCodePoint, 1};
  return {value, length};
}

}  // namespace hero::nn::data

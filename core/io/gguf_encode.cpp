// Making blocks of GGUF (their layouts are described in gguf_blocks.cpp).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <hero/core/io/gguf_blocks.h>
#include <hero/core/kernels/half.h>

namespace hero::core::gguf {
namespace {

constexpr int64_t kElements = 32;  // of a block

// The scale as it is stored.
float put_half(std::byte* to, float value) {
  const Float16 half(value);
  std::memcpy(to, &half, sizeof(half));
  return static_cast<float>(half);
}

// The whole number nearest to x / scale among those from `least` to `most`; a tie goes to the even
// one.
int code_of(float x, float scale, float least, float most) {
  if (scale == 0.0f) return 0;
  return static_cast<int>(std::clamp(std::nearbyint(x / scale), least, most));
}

void put_nibbles(std::byte* to, const std::array<int, kElements>& codes) {
  for (size_t j = 0; j < kElements / 2; ++j) {
    to[j] = static_cast<std::byte>(codes[j] | codes[j + kElements / 2] << 4);
  }
}

// Codes from -127 to 127, of which the largest number has one of the ends.
bool encode_q8_0(const float* x, std::byte* out) {
  float largest = 0.0f;
  for (int64_t i = 0; i < kElements; ++i) largest = std::max(largest, std::fabs(x[i]));
  const float scale = put_half(out, largest / 127.0f);
  for (int64_t i = 0; i < kElements; ++i) {
    out[2 + i] = static_cast<std::byte>(code_of(x[i], scale, -127.0f, 127.0f));
  }
  return std::isfinite(scale);
}

// Codes from -8 to 7, of which the largest number has -8: so its sign decides the scale's.
bool encode_q4_0(const float* x, std::byte* out) {
  const float largest = *std::max_element(
      x, x + kElements, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  const float scale = put_half(out, largest / -8.0f);
  std::array<int, kElements> codes{};
  for (size_t i = 0; i < kElements; ++i) codes[i] = code_of(x[i], scale, -8.0f, 7.0f) + 8;
  put_nibbles(out + 2, codes);
  return std::isfinite(scale);
}

// Codes from 0, which the least number has, to 15, which the largest has.
bool encode_q4_1(const float* x, std::byte* out) {
  const auto [least, largest] = std::minmax_element(x, x + kElements);
  const float scale = put_half(out, *largest / 15.0f - *least / 15.0f);
  const float shift = put_half(out + 2, *least);
  std::array<int, kElements> codes{};
  for (size_t i = 0; i < kElements; ++i) codes[i] = code_of(x[i] - shift, scale, 0.0f, 15.0f);
  put_nibbles(out + 4, codes);
  return std::isfinite(scale) && std::isfinite(shift);
}

using EncodeBlock = bool (*)(const float* x, std::byte* out);

EncodeBlock encoder_of(const BlockType& type) {
  switch (type.number) {  // as files write it
    case 2:
      return encode_q4_0;
    case 3:
      return encode_q4_1;
    case 8:
      return encode_q8_0;
    default:
      return nullptr;
  }
}

}  // namespace

bool can_encode(const BlockType& type) { return encoder_of(type) != nullptr; }

bool encode(const BlockType& type, const float* in, int64_t count, std::byte* out) {
  const EncodeBlock encode_one = encoder_of(type);
  bool good = true;
  for (int64_t b = 0; b < count; ++b) {
    good = encode_one(in + b * kElements, out + b * type.bytes) && good;
  }
  return good;
}

}  // namespace hero::core::gguf

#pragma once
// What the fuzz targets and the replayed mutations feed: any bytes at all must either load or be
// refused with hero::Error. Reads out of bounds and everything else are left to the sanitizers.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <hero/core/array.h>
#include <hero/core/error.h>
#include <hero/core/io/printable.h>
#include <hero/core/npy.h>
#include <hero/core/safetensors.h>

namespace hero_fuzz {

/// Reads every byte of an array, so that a short one shows.
inline uint64_t touch(const hero::core::Array& array) {
  uint64_t sum = 0;
  if (array.numel() == 0) return sum;
  for (const std::byte b : std::span(array.bytes(), static_cast<size_t>(array.nbytes()))) {
    sum = sum * 31 + std::to_integer<uint64_t>(b);
  }
  return sum;
}

/// True when the bytes are a file of the format.
inline bool feed_safetensors(std::span<const std::byte> bytes) {
  try {
    uint64_t sum = 0;
    for (const auto& one : hero::core::parse_safetensors(bytes).arrays) sum += touch(one.array);
    return sum != 1;
  } catch (const hero::Error&) {
    return false;
  }
}

inline bool feed_npy(std::span<const std::byte> bytes) {
  try {
    return touch(hero::core::parse_npy(bytes)) != 1;
  } catch (const hero::Error&) {
    return false;
  }
}

/// What any text becomes on its way to a terminal.
inline bool feed_printable(std::span<const std::byte> bytes) {
  const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  const std::string shown = hero::printable(text);
  for (const char c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) __builtin_trap();
  }
  if (hero::printable(shown) != shown) __builtin_trap();
  return shown == text;
}

}  // namespace hero_fuzz

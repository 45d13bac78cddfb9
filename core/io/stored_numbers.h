#pragma once
// Numbers as files store them: in either order of their bytes, and integers that no array holds.
#include <cstddef>
#include <cstdint>
#include <span>

#include <hero/core/dtype.h>

namespace hero::core {

/// How a file stores one number.
struct StoredNumber {
  int64_t bytes = 1;           ///< 1, 2, 4 or 8
  bool is_signed = true;       ///< of integers: two's complement
  bool is_big_endian = false;  ///< the byte of the greatest weight comes first
};

/// Reverses the bytes of every number, each of so many bytes.
void reverse_numbers(std::span<std::byte> numbers, int64_t bytes);

/// Writes stored integers to `out` as numbers of `dtype`, kInt32 or kInt64, with the same values.
/// kInt32 holds all integers of two bytes, and unsigned ones of four and eight bytes want kInt64.
/// Returns how many fit, which is all but where an unsigned integer of eight bytes is above 2^63 -
/// 1: nothing is written from there on.
int64_t widen_integers(std::span<const std::byte> stored, const StoredNumber& number, DType dtype,
                       std::byte* out);

/// A stored integer as an unsigned one; what is negative has 2^64 added.
uint64_t stored_integer(std::span<const std::byte> stored, const StoredNumber& number);

}  // namespace hero::core

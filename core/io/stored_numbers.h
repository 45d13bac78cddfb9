#pragma once
// Numbers as files store them: in either byte order, and integers of types that no dtype has.
#include <cstddef>
#include <cstdint>
#include <span>

#include <hero/core/dtype.h>

namespace hero::core {

/// How a file stores one number.
struct StoredNumber {
  int64_t bytes = 1;           ///< 1, 2, 4 or 8
  bool is_signed = true;       ///< for integers: in two's complement
  bool is_big_endian = false;  ///< the most significant byte comes first
};

/// Reverses the bytes of every number; each has `bytes` bytes.
void reverse_numbers(std::span<std::byte> numbers, int64_t bytes);

/// Writes stored integers to `out` as numbers of `dtype`, kInt32 or kInt64, with the same values.
/// kInt32 can hold all integers of up to two bytes; unsigned ones of four and eight bytes need
/// kInt64. Returns the number of integers before the first unsigned one of eight bytes above 2^63 -
/// 1, which is not written, nor are those after it; if there is none, the number of all.
int64_t widen_integers(std::span<const std::byte> stored, const StoredNumber& number, DType dtype,
                       std::byte* out);

/// A stored integer as an unsigned one; 2^64 is added to a negative one.
uint64_t stored_integer(std::span<const std::byte> stored, const StoredNumber& number);

}  // namespace hero::core

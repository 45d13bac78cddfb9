#pragma once
// Sums and products of sizes that come from a caller: an Error if they do not fit into 64 bits.
#include <cstdint>

#include <hero/core/error.h>

namespace hero::core {

/// A number in a calculation with sizes; `op` names the operation in the Error.
struct Checked {
  const char* op;
  int64_t value;

  friend Checked operator+(Checked a, int64_t b) {
    int64_t sum = 0;
    if (__builtin_add_overflow(a.value, b, &sum)) [[unlikely]]
      fail(a.op, ": ", a.value, " + ", b, " does not fit into 64 bits; use smaller sizes");
    return {a.op, sum};
  }
  friend Checked operator-(Checked a, int64_t b) {
    int64_t difference = 0;
    if (__builtin_sub_overflow(a.value, b, &difference)) [[unlikely]]
      fail(a.op, ": ", a.value, " - ", b, " does not fit into 64 bits; use smaller sizes");
    return {a.op, difference};
  }
  friend Checked operator*(Checked a, int64_t b) {
    int64_t product = 0;
    if (__builtin_mul_overflow(a.value, b, &product)) [[unlikely]]
      fail(a.op, ": ", a.value, " * ", b, " does not fit into 64 bits; use smaller sizes");
    return {a.op, product};
  }
};

}  // namespace hero::core

#pragma once
// How the CPU's products cut what they multiply, along the steps of a sum and where halves go
// through float32 arrays. A plan for the CPU (core/meta) takes the memory of these arrays, too.
#include <algorithm>

#include <hero/core/array.h>
#include <hero/core/functions/half_products.h>

namespace hero::core {

inline constexpr int64_t kBlockSteps = 256;  // steps of k in a block, at most

/// The length of the blocks of k: equal ones, so that no short one wastes the start and end of the
/// kernel.
inline int64_t block_length(int64_t k) {
  const auto quotient_above = [](int64_t x, int64_t y) { return (x + y - 1) / y; };
  const int64_t equal = quotient_above(k, quotient_above(k, kBlockSteps));
  return std::min(k, quotient_above(equal, 16) * 16);
}

/// Whether products of this dtype go through float32 arrays.
inline bool are_widened(DType dtype) {
  return is_half(dtype) && !(dtype == kBFloat16 && native_half_products());
}
/// Of a batch of such products how many are converted at a time: about 4 MiB of float32.
inline int64_t widened_at_once(const Array& a, const Array& b, const Array& out) {
  constexpr int64_t kElements = 1 << 20;
  const int64_t each = out.size(1) * out.size(2) + a.size(1) * a.size(2) + b.size(1) * b.size(2);
  return std::min(out.size(0), std::max<int64_t>(1, kElements / std::max<int64_t>(1, each)));
}

/// Elements of a large operand that are float32 at a time: 16 MiB.
inline constexpr int64_t kWideElements = 1 << 22;

/// How a product of matrices a [m, k] and b [k, n] that are large beside that is converted: in
/// blocks of so many rows of a, columns of b, and steps of k, of at most kWideElements each, of
/// which the larger operand's are long pieces of memory. k is cut where the product adds partial
/// results, see [note: the bits of a product] in gemm.h.
struct WideBlocks {
  int64_t rows, columns, steps;

  WideBlocks(const Array& a, const Array& b) {
    constexpr int64_t kSide = 256;  // rows or columns whose work is much beside the conversion
    const int64_t m = a.size(0), k = a.size(1), n = b.size(1);
    const bool of_b = b.numel() >= a.numel();
    const bool cuts_steps =
        of_b ? b.strides()[0] > b.strides()[1] : a.strides()[0] < a.strides()[1];
    const int64_t side = cuts_steps ? (of_b ? n : m) : std::min(kSide, std::max(m, n));
    const int64_t most = kWideElements / std::max<int64_t>(1, side);
    const int64_t length = block_length(std::max<int64_t>(1, k));
    steps = k <= most ? k : std::max(length, most - most % length);
    const int64_t across = kWideElements / std::max<int64_t>(1, steps);
    const auto some_of = [](int64_t all, int64_t count) {
      if (all <= count) return all;
      return count > 64 ? count - count % 64 : count;  // whole tiles of the kernel
    };
    columns = some_of(n, across);
    rows = some_of(m, std::min(across, std::max<int64_t>(1, kWideElements / columns)));
  }
};

}  // namespace hero::core

#pragma once
// Sums of columns in the order of row_sums.h.
#include <bit>

#include <hero/core/cpu/reduce/row_sums.h>
#include <hero/core/cpu/workspace.h>

namespace hero::core::cpu {

template <class T>
class ColumnSums {
 public:
  ColumnSums(int64_t n, int64_t width)
      : lanes_((kStep + std::bit_width(static_cast<uint64_t>(n / kBlock)) + 1) * width) {}
  // The sums of `width` columns of n rows; row(i) gives where row i is, and is called in order.
  template <class Row>
  void add_up(int64_t n, int64_t width, Row&& row, T* sums) {
    const auto take = [&](int64_t i, bool is_first, T* to) {
      const T* x = row(i);
      is_first ? void(std::copy_n(x, width, to)) : add(x, to);
    };
    add_up_terms(n, width, take, sums);
  }
  // The same of terms that take(i, is_first, to) makes of row i: it sets `to` or adds to it.
  template <class Take>
  void add_up_terms(int64_t n, int64_t width, Take&& take, T* sums) {
    width_ = width;
    for (int64_t at = 0; at < n; at += kBlock) {
      const int64_t count = std::min(kBlock, n - at), whole = count - count % kStep;
      for (int64_t i = 0; i < whole; ++i) take(at + i, i < kStep, lane(i % kStep));
      for (int64_t step = whole > 0 ? kStep / 2 : 0; step > 0; step /= 2) {
        for (int64_t j = 0; j < step; ++j) add(lane(j + step), lane(j));
      }
      if (whole > 0) {
        std::copy_n(lane(0), width, sums);
      } else {
        std::fill_n(sums, width, T(0));
      }
      for (int64_t i = whole; i < count; ++i) take(at + i, false, sums);
      if (n > kBlock) join(static_cast<uint64_t>(at / kBlock), at + count == n, sums);
    }
  }

 private:
  static constexpr int64_t kStep = 2 * Wide<T>::kWidth;

  // As TreeSum does with the sum of block `number`, and with all of them after the last.
  void join(uint64_t number, bool last, T* sums) {
    int64_t level = kStep;
    for (uint64_t rest = number; rest & 1; rest >>= 1) add(lane(level++), sums);
    std::copy_n(sums, width_, lane(level));
    if (!last) return;
    std::fill_n(sums, width_, T(0));
    level = kStep;
    for (uint64_t rest = number + 1; rest != 0; rest >>= 1, ++level) {
      if (rest & 1) add(lane(level), sums);
    }
  }
  void add(const T* x, T* to) const {
#pragma GCC ivdep
    for (int64_t c = 0; c < width_; ++c) to[c] += x[c];
  }
  T* lane(int64_t i) { return lanes_.data() + i * width_; }

  Workspace<T> lanes_;  // and sums of blocks, one for each level of the tree
  int64_t width_ = 0;
};

}  // namespace hero::core::cpu

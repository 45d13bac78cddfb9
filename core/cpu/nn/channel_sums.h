#pragma once
// Sums over the channels of [N, C, L] in an order that the shape alone decides: in lanes along a
// plane of L elements that is as long as the lanes at least, and by columns of rows else. Both
// combine partial sums in a tree.
#include <algorithm>
#include <cstdint>

#include <hero/core/cpu/reduce/row_sums.h>

namespace hero::core::cpu {

/// kSums sums at once over planes of one channel, each of Wide<T>::kWidth elements or more.
template <class T, int kSums>
class ChannelLanes {
 public:
  using V = typename Wide<T>::type;
  static constexpr int64_t kWidth = Wide<T>::kWidth;

  /// Adds a plane of n elements: terms(i, t) sets t[k] to sum k's terms of elements i.. of it.
  template <class Terms>
  [[gnu::always_inline]] void add_plane(int64_t n, Terms&& terms) {
    for (int64_t at = 0; at < n; at += kRun) add_run(at, std::min(n, at + kRun), terms);
  }
  void totals(T (&sums)[kSums]) {
    flush();
    for (int k = 0; k < kSums; ++k) {
      V value = {};
      int level = 0;
      for (uint64_t rest = count_; rest != 0; rest >>= 1, ++level) {
        if (rest & 1) value = levels_[level][k] + value;
      }
      T lane[kWidth];
      std::memcpy(lane, &value, sizeof(value));
      for (int64_t width = kWidth / 2; width > 0; width /= 2) {
        for (int64_t j = 0; j < width; ++j) lane[j] += lane[j + width];
      }
      sums[k] = lane[0];
    }
  }

 private:
  static constexpr int64_t kRun = 1024;  // elements that enter the tree together, at least

  template <class Terms>
  [[gnu::always_inline]] void add_run(int64_t i, int64_t end, Terms&& terms) {
    V even[kSums], odd[kSums], t[kSums];
    pending_ += end - i;
    for (int k = 0; k < kSums; ++k) {
      even[k] = even_[k];
      odd[k] = odd_[k];
    }
    for (; i + 2 * kWidth <= end; i += 2 * kWidth) {
      terms(i, t);
      for (int k = 0; k < kSums; ++k) even[k] += t[k];
      terms(i + kWidth, t);
      for (int k = 0; k < kSums; ++k) odd[k] += t[k];
    }
    if (i + kWidth <= end) {
      terms(i, t);
      for (int k = 0; k < kSums; ++k) even[k] += t[k];
      i += kWidth;
    }
    if (i < end) {  // lanes of elements that have been added are left out
      terms(end - kWidth, t);
      using Mask = decltype(V{} < V{});
      Mask lane;
      for (int64_t j = 0; j < kWidth; ++j) lane[j] = static_cast<int>(j);
      const Mask kept = lane >= static_cast<int>(kWidth - (end - i));
      for (int k = 0; k < kSums; ++k) odd[k] += kept ? t[k] : V{};
    }
    for (int k = 0; k < kSums; ++k) {
      even_[k] = even[k];
      odd_[k] = odd[k];
    }
    if (pending_ >= kRun) flush();
  }
  void flush() {
    V value[kSums];
    for (int k = 0; k < kSums; ++k) {
      value[k] = even_[k] + odd_[k];
      even_[k] = odd_[k] = V{};
    }
    int level = 0;
    for (uint64_t rest = count_++; rest & 1; rest >>= 1, ++level) {
      for (int k = 0; k < kSums; ++k) value[k] = levels_[level][k] + value[k];
    }
    for (int k = 0; k < kSums; ++k) levels_[level][k] = value[k];
    pending_ = 0;
  }

  V even_[kSums] = {}, odd_[kSums] = {};
  V levels_[48][kSums];
  uint64_t count_ = 0;
  int64_t pending_ = 0;
};

inline constexpr int64_t kRowsInTurn = 32;  // rows that are added one after the other

/// Levels of the tree of n rows below its root.
inline int64_t row_levels(int64_t n) {
  int64_t levels = 0;
  for (; n > kRowsInTurn; n -= n / 2) ++levels;
  return levels;
}

/// out [width] = the sums of rows first .. first + n, which add(row, sums) adds to the sums.
/// `spare` has row_levels(n) times `width` elements.
template <class T, class Add>
void sum_rows(int64_t first, int64_t n, int64_t width, Add&& add, T* out, T* spare) {
  if (n <= kRowsInTurn) {
    std::fill_n(out, width, T(0));
    for (int64_t row = first; row < first + n; ++row) add(row, out);
    return;
  }
  const int64_t left = n / 2;
  sum_rows(first, left, width, add, out, spare);
  sum_rows(first + left, n - left, width, add, spare, spare + width);
#pragma GCC ivdep
  for (int64_t i = 0; i < width; ++i) out[i] += spare[i];
}

}  // namespace hero::core::cpu

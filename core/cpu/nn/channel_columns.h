#pragma once
// How threads share the channels of [N, C, L] whose planes of L elements are short: as rows [N, M],
// M = C L, whose columns belong to channel column / L.
#include <algorithm>
#include <cstdint>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/nn/channel_sums.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

template <class T>
class ChannelColumns {
 public:
  ChannelColumns(int64_t N, int64_t C, int64_t L)
      : n_(N),
        c_(C),
        l_(L),
        row_width_(C * L),
        height_(std::max(kStripOfRows, (N + kStripsOfRows - 1) / kStripsOfRows)) {}

  int64_t row_width() const { return row_width_; }
  /// value(c) of each column's channel.
  template <class Value>
  void spread(T* columns, Value&& value) const {
    for (int64_t c = 0; c < c_; ++c) std::fill_n(columns + c * l_, l_, value(c));
  }
  /// Calls body(first, end) for parts of all rows.
  template <class Body>
  void each_rows(Body&& body) const {
    parallel_for(n_, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, row_width_)), body);
  }
  /// sums [kSums, C] over the channels; add(at, column, width, sums) adds the terms of the elements
  /// at.., which lie in columns column .. column + width of a row, to sums [kSums, width].
  template <int kSums, class Add>
  void sum(T* sums, Add&& add) const {
    const int64_t pieces = (row_width_ + kBlock - 1) / kBlock,
                  strips = (n_ + height_ - 1) / height_;
    const Workspace<T> parts(std::max<int64_t>(1, strips) * kSums * row_width_);
    std::fill_n(parts.data(), kSums * row_width_, T(0));  // where there are no rows
    const int64_t work = std::min(n_, height_) * std::min(row_width_, kBlock);
    parallel_for(
        strips * pieces, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work)),
        [&](int64_t begin, int64_t end) {
          const int64_t most = kSums * std::min(row_width_, kBlock);
          const Workspace<T> room((1 + row_levels(height_)) * most);
          for (int64_t task = begin; task < end; ++task) {
            const int64_t s = task / pieces, column = task % pieces * kBlock;
            const int64_t width = std::min(kBlock, row_width_ - column), first = s * height_;
            sum_rows(
                first, std::min(height_, n_ - first), kSums * width,
                [&](int64_t row, T* into) { add(row * row_width_ + column, column, width, into); },
                room.data(), room.data() + kSums * width);
            for (int k = 0; k < kSums; ++k) {
              std::copy_n(room.data() + k * width, width,
                          parts.data() + (s * kSums + k) * row_width_ + column);
            }
          }
        });
    for (int k = 0; k < kSums; ++k) {
      join_strips(strips, kSums * row_width_, parts.data() + k * row_width_, sums + k * c_);
    }
  }

 private:
  static constexpr int64_t kStripOfRows = 256;  // rows that a thread takes at a time, at least
  static constexpr int64_t kStripsOfRows = 64;  // and strips at most

  // The sums of strips, `step` behind one another, are added to the first, and its columns to the
  // sums of their channels.
  void join_strips(int64_t strips, int64_t step, T* total, T* sums) const {
    for (int64_t s = 1; s < strips; ++s) {
      const T* part = total + s * step;
#pragma GCC ivdep
      for (int64_t i = 0; i < row_width_; ++i) total[i] += part[i];
    }
    for (int64_t c = 0; c < c_; ++c) {
      T value = T(0);
      for (int64_t i = 0; i < l_; ++i) value += total[c * l_ + i];
      sums[c] = value;
    }
  }

  int64_t n_, c_, l_, row_width_, height_;
};

}  // namespace hero::core::cpu

#pragma once
// Products with a matrix of windows that is nowhere written: its columns are packed a panel at a
// time from where the windows lie. Only core/cpu/convolve.cpp includes this.
#include <vector>

#include <hero/core/cpu/gemm_blocks.h>
#include <hero/core/cpu/gemm_kernel.h>
#include <hero/core/cpu/gemm_pack.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

/// A matrix B whose element (p, j) lies at from[steps[p] + rows[j / width] + j % width]. Elements
/// behind the last one that this reaches, kBehind of them, can be read, too.
template <class T>
struct ShiftedRows {
  static constexpr int64_t kBehind = micro::kMaxColumns<T>;
  std::vector<int64_t> steps, rows;
  int64_t width = 1;

  int64_t columns() const { return static_cast<int64_t>(rows.size()) * width; }
};

/// C = A B for an A [m, k], packed once, and Bs of one form; the bits are gemm's.
template <class T>
class ShiftedProduct {
 public:
  /// A is row-major.
  ShiftedProduct(int64_t m, const T* a, const ShiftedRows<T>& b)
      : m_(m),
        k_(static_cast<int64_t>(b.steps.size())),
        panels_(ceil_div(m, micro::kMaxRows)),
        length_(block_length(k_)),
        b_(b),
        packed_(panels_ * micro::kMaxRows * k_ + micro::kLanes<T>) {
    for (int64_t p = 0; p < k_; p += length_) {
      const int64_t length = std::min(length_, k_ - p);
      T* to = packed_.data() + panels_ * micro::kMaxRows * p;
      for (int64_t i = 0; i < panels_; ++i, to += micro::kMaxRows * length) {
        const auto [first, last] = part_of(m_, panels_, i);
        micro::pack<T, micro::kMaxRows>(last - first, length, a + first * k_ + p, k_, 1, to);
      }
    }
  }

  /// The i-th of `count` products takes its B from `from + i * from_step` and writes its C, [m,
  /// columns] row-major, at `c + i * c_step`.
  void run(int64_t count, const T* from, int64_t from_step, T* c, int64_t c_step) const {
    const int64_t each = ceil_div(b_.columns(), kWidth), all = count * each;
    // Some panels at a time, which share a block of A in the cache, but enough pieces of work for
    // all threads.
    const int64_t grain = std::clamp<int64_t>(all / (4 * num_threads()), 1, 16);
    parallel_for(all, grain, [&](int64_t begin, int64_t end) {
      const Workspace<T> room(kWidth * (length_ + 1));
      for (int64_t top = 0; top < panels_; top += kTilePanels) {
        const int64_t bottom = std::min(panels_, top + kTilePanels);
        for (int64_t p = 0; p < k_; p += length_) {
          for (int64_t t = begin; t < end; ++t) {
            const int64_t i = t / each;
            panel(t % each * kWidth, p, from + i * from_step, c + i * c_step, {top, bottom},
                  room.data());
          }
        }
      }
    });
  }

 private:
  static constexpr int64_t kWidth = micro::kMaxColumns<T>;
  static constexpr int64_t kTilePanels = kTileRows / micro::kMaxRows;

  // One block of k of a panel of B with some panels of A.
  void panel(int64_t j, int64_t p, const T* from, T* c, const std::pair<int64_t, int64_t>& rows,
             T* room) const {
    const int64_t n = b_.columns(), columns = std::min(kWidth, n - j);
    const int64_t length = std::min(length_, k_ - p);
    pack(j, columns, p, length, from, room);
    const T* const a = packed_.data() + panels_ * micro::kMaxRows * p;
    for (int64_t i = rows.first; i < rows.second; ++i) {
      const auto [first, last] = part_of(m_, panels_, i);
      const micro::Target<T> to{c + first * n + j, n, 1, columns, p > 0};
      const auto kernel = micro::kernel_for<T, micro::Layout::unit_rows>(last - first, columns);
      kernel(length, a + i * micro::kMaxRows * length, micro::kMaxRows, room, kWidth, to);
    }
  }

  // Neighbouring columns that lie side by side.
  struct Run {
    int64_t place, offset, count;
  };

  // Whole vectors are stored, the last ones of a run over what the next one writes.
  void pack(int64_t j, int64_t columns, int64_t p, int64_t length, const T* from, T* to) const {
    constexpr int64_t lanes = micro::kLanes<T>;
    Run runs[kWidth];
    int64_t count = 0;
    for (int64_t at = 0; at < columns;) {
      const int64_t row = (j + at) / b_.width, x = (j + at) % b_.width;
      const int64_t size = std::min(b_.width - x, columns - at);
      runs[count++] = {at, b_.rows[static_cast<size_t>(row)] + x, size};
      at += size;
    }
    const int64_t* const steps = b_.steps.data() + p;
    if (count == 1) {
      const T* const first = from + runs[0].offset;
      for (int64_t q = 0; q < length; ++q, to += kWidth) {
        micro::store<T>(to, micro::load(first + steps[q]));
        micro::store<T>(to + lanes, micro::load(first + steps[q] + lanes));
      }
      return;
    }
    for (int64_t q = 0; q < length; ++q, to += kWidth) {
      const T* const step = from + steps[q];
      for (int64_t r = 0; r < count; ++r) {
        const Run& run = runs[r];
        for (int64_t x = 0; x < run.count; x += lanes) {
          micro::store<T>(to + run.place + x, micro::load(step + run.offset + x));
        }
      }
    }
  }

  int64_t m_, k_, panels_, length_;
  const ShiftedRows<T>& b_;
  Workspace<T> packed_;
};

}  // namespace hero::core::cpu

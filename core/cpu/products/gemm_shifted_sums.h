#pragma once
// Products with the transpose of a matrix of windows, whose sums run over all positions of the
// output. Only core/cpu/nn/conv.cpp includes this.
#include <vector>

#include <hero/core/cpu/products/gemm_pack.h>
#include <hero/core/cpu/products/gemm_shifted.h>

namespace hero::core::cpu {

/// C [m, p] += A B^T for A [m, k] and the windows B [p, k] of some images, whose places follow each
/// other along k. The bits are those of a product that is added, or of one for every `chain` images
/// which are added in order to zeros; the places of so many images are one block at most. It is
/// computed as B A^T: rows of windows are copied as they lie, and no more than A is turned.
template <class T>
class ShiftedSums {
 public:
  [[gnu::cold]] ShiftedSums(int64_t m, int64_t images, int64_t chain, const ShiftedRows& b)
      : m_(m),
        images_(images),
        k_(images * b.columns()),
        length_(chain < images ? chain * b.columns() : block_length(k_)),
        rows_(static_cast<int64_t>(b.steps.size())),
        panels_(ceil_div(rows_, micro::kMaxRows)),
        a_panels_(ceil_div(m, kWidth)),
        b_(b),
        turned_(a_panels_ * kWidth * k_) {}

  /// Image i's columns of A, row-major, lie at `a + i * a_step`, its windows at `from + i *
  /// from_step`. C is row-major; if `fresh` it is as if it held zeros.
  [[gnu::noinline]] void add(const T* a, int64_t a_step, const T* from, int64_t from_step,
                             bool fresh, T* c) const {
    const int64_t each = b_.columns();
    parallel_for(a_panels_ * images_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t j = t / images_ * kWidth, i = t % images_;
        micro::pack<T, kWidth>(std::min(kWidth, m_ - j), each, a + i * a_step + j * each, each, 1,
                               turned_.data() + j * k_ + i * each * kWidth);
      }
    });
    const std::vector<Run> runs = runs_of(from_step);
    const int64_t grain = std::clamp<int64_t>(panels_ / (4 * num_threads()), 1, kGroup);
    parallel_for(panels_, grain, [&](int64_t begin, int64_t end) {
      const int64_t first = part_of(rows_, panels_, begin).first;
      const int64_t count = part_of(rows_, panels_, end - 1).second - first;
      // Rows of sums that lie a power of two apart would share a few places of the cache.
      const int64_t width = round_up(m_, kLanes) + kLanes;
      const Workspace<T> copies(count * row_step()), sums(round_up(count, kLanes) * width);
      for (int64_t p = 0; p < k_; p += length_) {
        const int64_t length = std::min(length_, k_ - p);
        copy_rows(runs, p, from, first, count, copies.data());
        for (int64_t j = 0; j < m_; j += kWidth) {
          const int64_t columns = std::min(kWidth, m_ - j);
          for (int64_t i = begin; i < end; ++i) {
            const auto [top, bottom] = part_of(rows_, panels_, i);
            const auto kernel = micro::kernel_for<T, kLayout>(bottom - top, columns);
            kernel(length, copies.data() + (top - first) * row_step(), row_step(),
                   turned_.data() + j * k_ + p * kWidth, kWidth,
                   {sums.data() + (top - first) * width + j, width, 1, columns, p > 0});
          }
        }
      }
      micro::add_transposed(count, m_, sums.data(), width, fresh, c + first, rows_);
    });
  }

 private:
  static constexpr int64_t kWidth = micro::kMaxColumns<T>, kLanes = micro::kLanes<T>;
  static constexpr int64_t kGroup = 8;  // panels of windows beside a panel of A, in the cache
  static constexpr auto kLayout = micro::Layout::unit_steps;

  // Steps of k that lie side by side in an image.
  struct Run {
    int64_t place, offset, count;
  };

  int64_t row_step() const { return round_up(length_, 16) + kLanes; }

  // Runs of all places, none of which crosses the end of a block.
  std::vector<Run> runs_of(int64_t from_step) const {
    std::vector<Run> runs;
    int64_t place = 0;
    for (int64_t i = 0; i < images_; ++i) {
      place = each_run(b_, i * from_step, length_, place,
                       [&](int64_t first, int64_t offset, int64_t count) {
                         runs.push_back({first, offset, count});
                       });
    }
    return runs;
  }

  // The block at p of rows first .. first + count of B. Whole vectors are stored, the last ones of
  // a run over what the next one writes.
  void copy_rows(const std::vector<Run>& runs, int64_t p, const T* from, int64_t first,
                 int64_t count, T* to) const {
    const auto behind = [](const Run& run, int64_t place) { return run.place < place; };
    const auto begin = std::lower_bound(runs.begin(), runs.end(), p, behind);
    const auto end = std::lower_bound(begin, runs.end(), p + length_, behind);
    for (int64_t i = 0; i < count; ++i, to += row_step()) {
      const T* const row = from + b_.steps[static_cast<size_t>(first + i)];
      for (auto run = begin; run != end; ++run) {
        T* const target = to + run->place - p;
        const T* const source = row + run->offset;
        for (int64_t x = 0; x < run->count; x += kLanes) {
          micro::store<T>(target + x, micro::load(source + x));
        }
      }
    }
  }

  int64_t m_, images_, k_, length_, rows_, panels_, a_panels_;
  const ShiftedRows& b_;
  Workspace<T> turned_;
};

}  // namespace hero::core::cpu

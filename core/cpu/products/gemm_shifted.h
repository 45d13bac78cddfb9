#pragma once
// Products with a matrix of windows that is never stored as a whole: its columns are packed, a
// panel at a time, from the image. Only core/cpu/nn/convolve*.cpp includes this.
#include <vector>

#include <hero/core/cpu/products/gemm_blocks.h>
#include <hero/core/cpu/products/gemm_kernel.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

/// A matrix B whose element (p, j) lies at from[steps[p] + rows[j / width] + j % width]. Elements
/// behind the last one that this reaches, kBehind of them, can be read, too.
template <class T>
inline constexpr int64_t kBehind = micro::kMaxColumns<T>;
struct ShiftedRows {
  std::vector<int64_t> steps, rows;
  int64_t width = 1;

  int64_t columns() const { return static_cast<int64_t>(rows.size()) * width; }
};

/// Calls run(place, offset, count) for the columns of one B that lie side by side, the first of
/// them at `place`, from `from_offset` on. None crosses a multiple of `block`. Returns the place
/// behind.
template <class Run>
int64_t each_run(const ShiftedRows& b, int64_t from_offset, int64_t block, int64_t place,
                 const Run& run) {
  for (const int64_t row : b.rows) {
    for (int64_t x = 0; x < b.width;) {
      const int64_t count = std::min(b.width - x, block - place % block);
      run(place, from_offset + row + x, count);
      place += count;
      x += count;
    }
  }
  return place;
}

/// The columns of all Bs side by side, and where those of each begin, and those of its C.
struct ShiftedPlaces {
  int64_t count, from_step, c_step;
};
/// Up to `width` such columns from `first` on, cut where their windows, or their places in C, do
/// not lie side by side.
template <int64_t width, int64_t lanes>
struct ShiftedPanel {
  struct Run {
    int64_t place, offset, count;
  };
  int64_t columns, vectors = 0, pieces = 0;
  int64_t place[width], offset[width];  ///< of vectors in B, those that end a run too long
  Run of_c[width];                      ///< columns that lie side by side in C

  ShiftedPanel(const ShiftedRows& b, const ShiftedPlaces& places, int64_t first)
      : columns(std::min(width, places.count - first)) {
    const int64_t each = b.columns();
    for (int64_t at = 0; at < columns;) {
      const int64_t i = (first + at) / each, j = (first + at) % each, x = j % b.width;
      const int64_t size = std::min(b.width - x, columns - at);
      const int64_t start = i * places.from_step + b.rows[static_cast<size_t>(j / b.width)] + x;
      for (int64_t l = 0; l < size; l += lanes) {
        place[vectors] = at + l;
        offset[vectors++] = start + l;
      }
      if (at == 0 || j == 0) of_c[pieces++] = {at, i * places.c_step + j, 0};
      of_c[pieces - 1].count += size;
      at += size;
    }
  }
};

/// A matrix A [m, k] whose steps of k are `chains` groups of equally many: step q of chain s of row
/// i lies at a[i * row + s * chain + q].
template <class T>
struct ChainedRows {
  int64_t m;
  const T* a;
  int64_t row;
  int64_t chains = 1, chain = 0;
};

/// C = A B for Bs of one form. Of one chain the bits are gemm's. Several chains are one product
/// each, with the bits of gemm, and are added in order to a sum that begins with zero.
template <class T>
class ShiftedProduct {
 public:
  ShiftedProduct(const ChainedRows<T>& a, const ShiftedRows& b)
      : a_(a),
        b_(b),
        k_(static_cast<int64_t>(b.steps.size())),
        panels_(ceil_div(a.m, micro::kMaxRows)),
        length_(a.chains > 1 ? k_ / a.chains : block_length(k_)),
        depth_(block_length(length_)) {
    if (a.chains == 1) a_.chain = length_;
  }

  /// The i-th of `count` products takes its B from `from + i * from_step` and writes its C, [m,
  /// columns] row-major, at `c + i * c_step`.
  [[gnu::noinline]] void run(int64_t count, const T* from, int64_t from_step, T* c,
                             int64_t c_step) const {
    const ShiftedPlaces places{count * b_.columns(), from_step, c_step};
    const int64_t all = ceil_div(places.count, kWidth);
    // Some panels at a time, which share a block of A in the cache, but enough pieces of work for
    // all threads. All of a small A stays there from one panel to the next.
    const int64_t grain = std::clamp<int64_t>(all / (4 * num_threads()), 1, 16);
    const int64_t in_turn = a_.m * k_ <= kTileRows * kDepth ? 1 : grain;
    const int64_t tile_panels =
        std::clamp<int64_t>(kTileRows * kDepth / length_ / micro::kMaxRows, 1, panels_);
    parallel_for(all, grain, [&](int64_t begin, int64_t end) {
      const Workspace<T> room(kWidth * (length_ + 1));
      const Workspace<T> sums((tile_panels * micro::kMaxRows + 1) * kWidth);
      std::vector<Panel> panels;
      for (int64_t t = begin; t < end; t += in_turn) {
        panels.clear();
        for (int64_t u = t; u < std::min(end, t + in_turn); ++u) {
          panels.emplace_back(b_, places, u * kWidth);
        }
        for (int64_t top = 0; top < panels_; top += tile_panels) {
          const int64_t bottom = std::min(panels_, top + tile_panels);
          for (int64_t p = 0; p < k_; p += length_) {
            const int64_t length = std::min(length_, k_ - p);
            for (const Panel& panel : panels) {
              pack(panel, b_.steps.data() + p, length, from, room.data());
              multiply(panel, p, length, {top, bottom}, room.data(), sums.data(), c);
            }
          }
        }
      }
    });
  }

 private:
  static constexpr int64_t kWidth = micro::kMaxColumns<T>;

  using Panel = ShiftedPanel<kWidth, micro::kLanes<T>>;

  // Vectors that end a run too long are followed by those that belong there. Their number is known
  // to the compiler where it is small.
  template <int vectors>
  static void pack_vectors(const Panel& panel, const int64_t* steps, int64_t length, const T* from,
                           T* to) {
    const int64_t count = vectors > 0 ? vectors : panel.vectors;
    for (int64_t q = 0; q < length; ++q, to += kWidth) {
      const T* const step = from + steps[q];
#pragma GCC unroll 4
      for (int64_t v = 0; v < count; ++v) {
        micro::store<T>(to + panel.place[v], micro::load(step + panel.offset[v]));
      }
    }
  }

  static void pack(const Panel& panel, const int64_t* steps, int64_t length, const T* from, T* to) {
    const auto pack_so_many = panel.vectors == 2   ? pack_vectors<2>
                              : panel.vectors == 3 ? pack_vectors<3>
                              : panel.vectors == 4 ? pack_vectors<4>
                                                   : pack_vectors<0>;
    pack_so_many(panel, steps, length, from, to);
  }

  // Steps p.. of k, a chain or a block of the only one, of panels of A. `sums` has room for them.
  void multiply(const Panel& panel, int64_t p, int64_t length,
                const std::pair<int64_t, int64_t>& panels, const T* b, T* sums, T* c) const {
    const bool apart = a_.chains > 1, in_place = panel.pieces == 1 && (p > 0 || !apart);
    const auto [top, bottom] = panels;
    for (int64_t q = 0; q < length; q += depth_) {
      for (int64_t i = top; i < bottom; ++i) {
        const auto [first, last] = part_of(a_.m, panels_, i);
        micro::Target<T> to{sums + (i - top) * micro::kMaxRows * kWidth, kWidth, 1, panel.columns,
                            q > 0};
        if (in_place && length <= depth_) {
          to = {c + panel.of_c[0].offset + first * b_.columns(), b_.columns(), 1, panel.columns,
                p > 0};
        }
        const auto kernel =
            micro::kernel_for<T, micro::Layout::unit_steps>(last - first, to.columns);
        kernel(std::min(depth_, length - q), a_.a + first * a_.row + p / length_ * a_.chain + q,
               a_.row, b + q * kWidth, kWidth, to);
      }
    }
    if (in_place && length <= depth_) return;
    for (int64_t i = top; i < bottom; ++i) {
      const auto [first, last] = part_of(a_.m, panels_, i);
      for (int64_t row = first; row < last; ++row) {
        const T* const from = sums + ((i - top) * micro::kMaxRows + row - first) * kWidth;
        spread(panel, from,
               p > 0   ? Sum::add
               : apart ? Sum::add_to_zero
                       : Sum::set,
               c + row * b_.columns());
      }
    }
  }

  enum class Sum { set, add_to_zero, add };

  // Brings a row of sums to where its columns lie in a row of C.
  static void spread(const Panel& panel, const T* sums, Sum how, T* c) {
    for (int64_t r = 0; r < panel.pieces; ++r) {
      const auto& run = panel.of_c[r];
      for (int64_t x = 0; x < run.count; x += micro::kLanes<T>) {
        const int64_t count = std::min<int64_t>(micro::kLanes<T>, run.count - x);
        T* const to = c + run.offset + x;
        micro::Vector<T> sum = micro::load(sums + run.place + x);
        if (how == Sum::add) sum = micro::load_part(to, count) + sum;
        if (how == Sum::add_to_zero) sum = micro::Vector<T>{} + sum;
        micro::store_part<T>(to, sum, count);
      }
    }
  }

  ChainedRows<T> a_;
  const ShiftedRows& b_;
  int64_t k_, panels_, length_, depth_;
};

}  // namespace hero::core::cpu

#include <algorithm>
#include <cstdlib>
#include <memory>

#include <hero/core/cpu/caches.h>
#include <hero/core/cpu/products/gemm.h>
#include <hero/core/cpu/products/gemm_blocks.h>
#include <hero/core/cpu/products/gemm_few.h>
#include <hero/core/cpu/products/gemm_kernel.h>
#include <hero/core/cpu/products/gemm_lines.h>
#include <hero/core/cpu/products/gemm_pack.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/error.h>
#include <hero/core/thread_pool.h>
#include <hero/core/threads/per_thread.h>

namespace hero::core::cpu {
namespace {

using micro::Layout;

// [note: how a product is cut]
// A tile of C (rows x columns, one chunk of the thread pool) walks over k in blocks. For each it
// packs its rows of A, which then stay in the second-level cache, and takes the columns of B a
// panel at a time: pack the panel, which stays in the first-level cache, and run the kernel down
// the rows. What the kernel can read as well where it lies is not packed. Packing costs about as
// much as six columns (for A) or rows (for B) more of the tile; the cost model in choose_grid
// weighs it against idle threads.
constexpr int64_t kStepsTogether = 16;  // of k
constexpr int64_t kTinyWork = 128;  // multiply-adds below which packing costs more than it saves
constexpr int64_t kThreadWork = 1 << 18;     // multiply-adds that are worth a thread (5 us)
constexpr int64_t kWaitingFloats = 1 << 17;  // 0.5 of a 1 MiB cache

// Of numbers S, which become T as they are packed: halves, or T itself.
template <class T, class S = T>
struct Product {
  int64_t m, n, k;
  const S* a;
  int64_t a_rs, a_cs;
  const S* b;
  int64_t b_rs, b_cs;
  T* c;
  int64_t c_rs, c_cs;
  bool add = false;           // to what is in C, `factor` times
  const T* packed = nullptr;  // B, in panels b_panel apart, where it is packed already
  int64_t b_panel = 0;
  T factor = T(1);
  // Of halves, in place of C: what takes the sums, and where in that C begins.
  const HalfSums* to = nullptr;
  int64_t row = 0, column = 0;

  // From row i and from column j on, which is a multiple of a panel's width where B is packed.
  void drop(int64_t i, int64_t j) {
    a += i * a_rs;
    if (packed != nullptr) {
      packed += j / micro::kMaxColumns<T> * b_panel;
    } else {
      b += j * b_cs;
    }
    if constexpr (kIsHalf<S>) {
      row += i, column += j;
    } else {
      c += i * c_rs + j * c_cs;
    }
  }
};

// Scratch of one thread, kept for its next product.
template <class T>
struct ScratchMemory {
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> memory;
  int64_t capacity = 0;
};
template <class T>
T* scratch(int64_t count) {
  auto& own = PerThread<ScratchMemory<T>, struct OfProducts>::get();
  if (count > own.capacity) {
    own.memory.reset();
    own.capacity = 0;
    const int64_t bytes = round_up(count * static_cast<int64_t>(sizeof(T)), 64);
    own.memory.reset(static_cast<T*>(std::aligned_alloc(64, static_cast<size_t>(bytes))));
    check(own.memory != nullptr, "matmul: out of memory: ", bytes, " bytes of scratch");
    own.capacity = count;
  }
  return own.memory.get();
}

// One block of k of one tile, seen from its first element. The sums of halves are added up in c, if
// there is one, and handed out after the last block.
template <class T, class S>
class ProductBlock {
 public:
  explicit ProductBlock(const Product<T, S>& tile, bool is_last = true)
      : t_(tile), is_last_(is_last) {
    panels_ = ceil_div(t_.m, micro::kMaxRows);
    // A is read in place where its layout allows it and too few columns of B would pay for packing.
    const bool few_columns = t_.n <= 2 * micro::kMaxColumns<T>;
    // Rows of A that lie 4 KiB apart would share a few places of the first-level cache.
    const bool rows_collide = (t_.a_rs * static_cast<int64_t>(sizeof(T))) % 4096 == 0;
    a_in_place_ = few_columns && (t_.a_rs == 1 || t_.a_cs == 1 || t_.m == 1);
    a_in_place_ = a_in_place_ || (t_.a_cs == 1 && t_.a_rs != 1 && !rows_collide);
    a_in_place_ = a_in_place_ && !kIsHalf<S>;
    a_by_rows_ = a_in_place_ && t_.a_rs != 1 && t_.a_cs == 1;
    // B is read in place where few rows of A would pay for packing, and where its rows lie so near
    // or are so few that the cache keeps them as well as it would keep a panel.
    const bool rows_near = t_.b_rs * static_cast<int64_t>(sizeof(T)) <= 512;
    b_in_place_ = !kIsHalf<S> && t_.b_cs == 1 && (panels_ <= 2 || t_.k <= 64 || rows_near);
    a_panel_ = micro::kMaxRows * t_.k + micro::kLanes<T>;
    const int64_t a_count = a_in_place_ ? 0 : panels_ * a_panel_;
    packed_a_ = scratch<T>(a_count + micro::kMaxColumns<T> * t_.k);
    packed_b_ = packed_a_ + a_count;
  }

  void run() const {
    if (!a_in_place_) pack_a();
    for (int64_t j = 0; j < t_.n; j += micro::kMaxColumns<T>) {
      run_columns(j, std::min<int64_t>(t_.n - j, micro::kMaxColumns<T>));
    }
  }

 private:
  void pack_a() const {
    // Rows that lie across memory share its cache lines: all panels take some steps, then the next.
    const int64_t piece = t_.a_rs == 1 ? kStepsTogether : t_.k;
    for (int64_t p = 0; p < t_.k; p += piece) {
      const int64_t steps = std::min(piece, t_.k - p);
      for (int64_t i = 0; i < panels_; ++i) {
        // With rows of the next panel beside its own: whole vectors are quicker to copy than parts.
        const auto [first, last] = part_of(t_.m, panels_, i);
        const S* const from = t_.a + first * t_.a_rs + p * t_.a_cs;
        micro::pack<T, micro::kMaxRows>(t_.m - first, steps, from, t_.a_rs, t_.a_cs,
                                        packed_a_ + i * a_panel_ + p * micro::kMaxRows);
        if (piece < t_.k) prefetch_steps(p + piece, std::min(piece, t_.k - p - piece), i);
      }
    }
  }

  // Of the columns of A that are packed next, the i-th part.
  void prefetch_steps(int64_t p, int64_t steps, int64_t i) const {
    constexpr int64_t line = kCacheLine / sizeof(S);
    if (steps <= 0) return;
    const auto [first, last] = part_of(ceil_div(t_.m, line), panels_, i);
    for (int64_t q = p; q < p + steps; ++q) {
      for (int64_t l = first; l < last; ++l)
        __builtin_prefetch(t_.a + q * t_.a_cs + l * line, 0, 2);
    }
  }

  void run_columns(int64_t j, int64_t columns) const {
    const bool packs = t_.packed == nullptr && (!b_in_place_ || columns % micro::kLanes<T> != 0);
    const T* b = packed_b_;
    int64_t b_step = micro::kMaxColumns<T>;
    if (packs) {
      micro::pack<T, micro::kMaxColumns<T>>(columns, t_.k, t_.b + j * t_.b_cs, t_.b_cs, t_.b_rs,
                                            packed_b_);
    } else if (t_.packed != nullptr) {
      b = t_.packed + j / micro::kMaxColumns<T> * t_.b_panel;
    } else if constexpr (!kIsHalf<S>) {
      b = t_.b + j * t_.b_cs;
      b_step = t_.b_rs;
    }
    for (int64_t i = 0; i < panels_; ++i) {
      const auto [first, last] = part_of(t_.m, panels_, i);
      if constexpr (kIsHalf<S>) {
        run_halves(i, first, last - first, j, columns, b);
      } else {
        const micro::Target<T> to{
            t_.c + first * t_.c_rs + j * t_.c_cs, t_.c_rs, t_.c_cs, columns, t_.add, t_.factor};
        if (a_by_rows_) {
          const auto kernel = micro::kernel_for<T, Layout::unit_steps>(last - first, columns);
          kernel(t_.k, t_.a + first * t_.a_rs, t_.a_rs, b, b_step, to);
        } else {
          const auto kernel = micro::kernel_for<T, Layout::unit_rows>(last - first, columns);
          const T* a = a_in_place_ ? t_.a + first * t_.a_rs : packed_a_ + i * a_panel_;
          kernel(t_.k, a, a_in_place_ ? t_.a_cs : micro::kMaxRows, b, b_step, to);
        }
      }
      if (packs) prefetch_columns(j + micro::kMaxColumns<T>, i);
    }
  }

  // The i-th panel of A, `rows` rows from row `first` on, times some columns from column j on:
  // columns that do not exist are computed beside them.
  void run_halves(int64_t i, int64_t first, int64_t rows, int64_t j, int64_t columns,
                  const T* b) const {
    T own[micro::kMaxRows * micro::kMaxColumns<T>];
    T* const sums = t_.c == nullptr ? own : t_.c + first * t_.c_rs + j;
    const int64_t step = t_.c == nullptr ? micro::kMaxColumns<T> : t_.c_rs;
    if (is_last_) t_.to->prefetch(t_.row + first, t_.column + j, rows, columns);
    micro::kernel_for<T, Layout::unit_rows>(rows, columns)(
        t_.k, packed_a_ + i * a_panel_, micro::kMaxRows, b, micro::kMaxColumns<T>,
        {sums, step, 1, round_up(columns, micro::kLanes<T>), t_.add});
    if (is_last_) t_.to->take(t_.row + first, t_.column + j, rows, columns, sums, step);
  }

  // Brings the i-th part of a panel of B nearer while the kernels run: its lines lie too far apart
  // for the machine to foresee them.
  void prefetch_columns(int64_t j, int64_t i) const {
    constexpr int64_t line = kCacheLine / sizeof(S);
    const int64_t columns = std::min<int64_t>(t_.n - j, micro::kMaxColumns<T>);
    if (columns <= 0) return;
    const S* b = t_.b + j * t_.b_cs;
    const bool by_rows = t_.b_cs == 1;
    const int64_t step = by_rows ? t_.b_rs : t_.b_cs;
    const int64_t length = by_rows ? columns : t_.k;
    const auto [first, last] = part_of(by_rows ? t_.k : columns, panels_, i);
    for (int64_t l = first; l < last; ++l) {
      for (int64_t p = 0; p < length; p += line) __builtin_prefetch(b + l * step + p, 0, 2);
    }
  }

  Product<T, S> t_;
  bool is_last_;
  int64_t panels_, a_panel_;
  bool a_in_place_, a_by_rows_, b_in_place_;
  T* packed_a_;
  T* packed_b_;
};

// The blocks of k of one tile.
template <class T, class S>
void run_blocks(const Product<T, S>& tile) {
  const int64_t length = block_length(tile.k);
  for (int64_t p = 0; p < tile.k; p += length) {
    Product<T, S> block = tile;
    block.k = std::min(length, tile.k - p);
    block.a += p * tile.a_cs;
    if (tile.packed != nullptr) {
      block.packed += p * micro::kMaxColumns<T>;
    } else {
      block.b += p * tile.b_rs;
    }
    block.add = tile.add || p > 0;
    ProductBlock<T, S>(block, p + length >= tile.k).run();
  }
}

// Sums of halves that wait for further blocks do so in the second-level cache, for some columns.
template <class T, class S>
void run_tile(const Product<T, S>& tile) {
  if constexpr (kIsHalf<S>) {
    if (block_length(tile.k) < tile.k) {
      constexpr int64_t width = micro::kMaxColumns<T>;
      const int64_t most = std::max<int64_t>(1, kWaitingFloats / (tile.m * width)) * width;
      const int64_t step = std::min(round_up(tile.n, width), most);
      const Workspace<T> sums(tile.m * step);
      for (int64_t left = 0; left < tile.n; left += most) {
        Product<T, S> part = tile;
        part.drop(0, left);
        part.n = std::min(most, tile.n - left);
        part.c = sums.data();
        part.c_rs = step;
        run_blocks(part);
      }
      return;
    }
  }
  run_blocks(tile);
}

template <class T, class S>
void run_in_tiles(const Product<T, S>& p) {
  const int64_t allowed = in_parallel_region() ? 1 : num_threads();
  const int64_t work = p.m * p.n * p.k;
  const Grid grid = choose_grid(p.m, p.n, p.k, micro::kMaxColumns<T>,
                                std::clamp<int64_t>(work / kThreadWork, 1, allowed));
  const int64_t panels = ceil_div(p.n, micro::kMaxColumns<T>);
  parallel_for(grid.rows * grid.columns, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const auto [top, bottom] = part_of(p.m, grid.rows, t / grid.columns);
      const auto [first, last] = part_of(panels, grid.columns, t % grid.columns);
      const int64_t left = first * micro::kMaxColumns<T>;
      Product<T, S> tile = p;
      tile.m = bottom - top;
      tile.n = std::min(p.n, last * micro::kMaxColumns<T>) - left;
      tile.drop(top, left);
      run_tile(tile);
    }
  });
}

// The same chains with B turned in registers.
template <class T, class S>
void run_few(const Product<T, S>& p) {
  const auto store = [&](int64_t j, int64_t columns, T* sums, int64_t step) {
    if constexpr (kIsHalf<S>) {
      p.to->take(0, j, p.m, columns, sums, step);
    } else {
      for (int64_t i = 0; i < p.m; ++i) std::copy_n(sums + i * step, columns, p.c + i * p.c_rs + j);
    }
  };
  micro::FewProduct<T, S, decltype(store)>{p.m, p.n,    p.k,  block_length(p.k), p.a, p.a_rs,
                                           p.b, p.b_cs, store}
      .run();
}

template <class T, class S>
bool is_few(const Product<T, S>& p) {
  return p.m <= micro::kFewRows && p.n >= micro::kLanes<T> && p.a_cs == 1 && p.b_rs == 1 &&
         p.c_cs == 1 && !p.add;
}

// The same chains of a B that is read by rows, in long pieces.
template <class T, class S>
bool is_of_lines(const Product<T, S>& p) {
  constexpr int64_t kBytes = 1 << 20;  // of B that panels of several rows of A find in the cache
  const bool large = p.k * p.n * static_cast<int64_t>(sizeof(S)) > kBytes;
  return p.m <= (large ? micro::kLineRows : 1) && p.n >= micro::kLanes<T> && p.b_cs == 1 &&
         p.c_cs == 1 && !p.add;
}

template <class T>
bool is_large_outer(const Product<T>& p) {
  return p.k == 1 && p.b_cs == 1 && p.c_cs == 1 && !p.add &&
         p.m * p.n * static_cast<int64_t>(sizeof(T)) >= kCachedBytes;
}

// The chain of an element. Needs k <= kDepth.
template <class T, class S>
T chain_of(const Product<T, S>& p, int64_t i, int64_t j) {
  const S *const a = p.a + i * p.a_rs, *const b = p.b + j * p.b_cs;
  T sum = 0;
  for (int64_t q = 0; q < p.k; ++q) {
    sum = micro::multiply_add(static_cast<T>(a[q * p.a_cs]), static_cast<T>(b[q * p.b_rs]), sum);
  }
  return sum;
}

// The same chains without panels.
template <class T, class S>
void run_tiny(const Product<T, S>& p) {
  for (int64_t i = 0; i < p.m; ++i) {
    if constexpr (kIsHalf<S>) {
      for (int64_t left = 0; left < p.n; left += kSumsColumns) {
        T sums[kSumsColumns];
        const int64_t columns = std::min(kSumsColumns, p.n - left);
        for (int64_t j = 0; j < columns; ++j) sums[j] = chain_of(p, i, left + j);
        p.to->take(i, left, 1, columns, sums, kSumsColumns);
      }
    } else {
      for (int64_t j = 0; j < p.n; ++j) {
        const T sum = chain_of(p, i, j);
        T& c = p.c[i * p.c_rs + j * p.c_cs];
        c = p.add ? micro::multiply_add(p.factor, sum, c) : sum;
      }
    }
  }
}

template <class T, class S>
void run_empty(const Product<T, S>& p) {
  if constexpr (kIsHalf<S>) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t left = 0; left < p.n; left += kSumsColumns) {
        T sums[kSumsColumns] = {};
        p.to->take(i, left, 1, std::min(kSumsColumns, p.n - left), sums, kSumsColumns);
      }
    }
  } else if (!p.add) {
    for (int64_t i = 0; i < p.m; ++i) std::fill_n(p.c + i * p.c_rs, p.n, T{0});
  }
}

// C^T = B^T A^T has the same bits. It pays where C has so few columns that the vectors of the
// kernel stay empty.
template <class T, class S>
Product<T, S> transposed(const Product<T, S>& p) {
  return {.m = p.n,
          .n = p.m,
          .k = p.k,
          .a = p.b,
          .a_rs = p.b_cs,
          .a_cs = p.b_rs,
          .b = p.a,
          .b_rs = p.a_cs,
          .b_cs = p.a_rs,
          .c = p.c,
          .c_rs = p.c_cs,
          .c_cs = p.c_rs,
          .add = p.add,
          .factor = p.factor,
          .to = p.to};
}

template <class T, class S>
bool better_transposed(const Product<T, S>& p) {
  const int64_t limit = p.a_rs == 1 ? micro::kMaxRows : micro::kLanes<T> / 2;
  return p.n <= limit && p.m > p.n;
}

// Of operands that are worth packing, or so few rows that they are read where they lie.
template <class T, class S>
void run_large(const Product<T, S>& p) {
  if (is_few(p)) return run_few(p);
  if constexpr (!kIsHalf<S>) {
    if (is_large_outer(p)) return micro::outer_product(p.m, p.n, p.a, p.a_rs, p.b, p.c, p.c_rs);
  }
  if (!is_of_lines(p)) return run_in_tiles(p);
  const int64_t depth = block_length(p.k);
  micro::LineProduct<T, S>{p.m,    p.n, p.k,    depth, p.a,    p.a_rs,
                           p.a_cs, p.b, p.b_rs, p.c,   p.c_rs, p.to}
      .run();
}

template <class T, class S>
void run(const Product<T, S>& p) {
  if (p.m <= 0 || p.n <= 0) return;
  if (p.k <= 0) return run_empty(p);
  if (p.packed != nullptr) return run_in_tiles(p);
  if (p.k <= kDepth && p.m * p.n * p.k <= kTinyWork) return run_tiny(p);
  if (is_few(p) || !better_transposed(p)) return run_large(p);
  Product<T, S> turned = transposed(p);
  if constexpr (kIsHalf<S>) {
    const TurnedSums to(*p.to);
    turned.to = &to;
    run_large(turned);
  } else {
    run_large(turned);
  }
}

}  // namespace

template <class T>
void gemm(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_rs, int64_t a_cs, const T* b,
          int64_t b_rs, int64_t b_cs, T* c, int64_t c_rs) {
  run(Product<T>{m, n, k, a, a_rs, a_cs, b, b_rs, b_cs, c, c_rs, 1});
}

template <class T>
void gemm_add(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_rs, int64_t a_cs, const T* b,
              int64_t b_rs, int64_t b_cs, T* c, int64_t c_rs, T factor) {
  Product<T> product{m, n, k, a, a_rs, a_cs, b, b_rs, b_cs, c, c_rs, 1, true};
  product.factor = factor;
  run(product);
}

template <class T>
int64_t packed_size(int64_t k, int64_t n) {
  // Packing stores a vector beyond the last panel.
  return round_up(n, micro::kMaxColumns<T>) * k + micro::kLanes<T>;
}

namespace {

template <class T, class S>
void pack_b(int64_t k, int64_t n, const S* b, int64_t b_rs, int64_t b_cs, T* packed) {
  constexpr int64_t width = micro::kMaxColumns<T>;
  // In order: what is stored beyond a panel is overwritten by the next one.
  for (int64_t j = 0; j < n; j += width) {
    const int64_t columns = std::min(width, n - j);
    micro::pack<T, width>(columns, k, b + j * b_cs, b_cs, b_rs, packed + j * k);
  }
}

}  // namespace

template <class T>
void gemm_pack(int64_t k, int64_t n, const T* b, int64_t b_rs, int64_t b_cs, T* packed) {
  pack_b(k, n, b, b_rs, b_cs, packed);
}

template <class T>
void gemm_packed(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_rs, int64_t a_cs,
                 const T* packed, T* c, int64_t c_rs) {
  run(Product<T>{.m = m,
                 .n = n,
                 .k = k,
                 .a = a,
                 .a_rs = a_rs,
                 .a_cs = a_cs,
                 .b = nullptr,
                 .b_rs = 0,
                 .b_cs = 0,
                 .c = c,
                 .c_rs = c_rs,
                 .c_cs = 1,
                 .packed = packed,
                 .b_panel = micro::kMaxColumns<T> * k});
}

template <class H>
void gemm_halves(int64_t m, int64_t n, int64_t k, const H* a, int64_t a_rs, int64_t a_cs,
                 const H* b, int64_t b_rs, int64_t b_cs, const HalfSums& to) {
  Product<float, H> product{m, n, k, a, a_rs, a_cs, b, b_rs, b_cs, nullptr, 0, 1};
  product.to = &to;
  run(product);
}

template <class H>
void gemm_pack_halves(int64_t k, int64_t n, const H* b, int64_t b_rs, int64_t b_cs, float* packed) {
  pack_b(k, n, b, b_rs, b_cs, packed);
}

template <class H>
void gemm_packed_halves(int64_t m, int64_t n, int64_t k, const H* a, int64_t a_rs, int64_t a_cs,
                        const float* packed, const HalfSums& to) {
  Product<float, H> product{m, n, k, a, a_rs, a_cs, nullptr, 0, 0, nullptr, 0, 1};
  product.packed = packed;
  product.b_panel = micro::kMaxColumns<float> * k;
  product.to = &to;
  run(product);
}

template <class T>
void gemm_batched(int64_t batch, int64_t m, int64_t n, int64_t k, const T* a, int64_t a_bs,
                  int64_t a_rs, int64_t a_cs, const T* b, int64_t b_bs, int64_t b_rs, int64_t b_cs,
                  T* c, int64_t c_bs, int64_t c_rs) {
  if (batch <= 0) return;
  if (b_bs == 0 && a_bs == m * a_rs && c_bs == m * c_rs) {
    return gemm(batch * m, n, k, a, a_rs, a_cs, b, b_rs, b_cs, c, c_rs);  // one tall product
  }
  const auto run_some = [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      gemm(m, n, k, a + p * a_bs, a_rs, a_cs, b + p * b_bs, b_rs, b_cs, c + p * c_bs, c_rs);
    }
  };
  const int64_t work = std::max<int64_t>(m * n * k, 1);
  // With few products the threads share each one, if it is large enough for that.
  if (batch < 4 * num_threads() && work >= 2 * kThreadWork) return run_some(0, batch);
  parallel_for(batch, ceil_div(kThreadWork, 4 * work), run_some);
}

template void gemm(int64_t, int64_t, int64_t, const float*, int64_t, int64_t, const float*, int64_t,
                   int64_t, float*, int64_t);
template void gemm(int64_t, int64_t, int64_t, const double*, int64_t, int64_t, const double*,
                   int64_t, int64_t, double*, int64_t);
template void gemm_add(int64_t, int64_t, int64_t, const float*, int64_t, int64_t, const float*,
                       int64_t, int64_t, float*, int64_t, float);
template void gemm_add(int64_t, int64_t, int64_t, const double*, int64_t, int64_t, const double*,
                       int64_t, int64_t, double*, int64_t, double);
template int64_t packed_size<float>(int64_t, int64_t);
template int64_t packed_size<double>(int64_t, int64_t);
template void gemm_pack(int64_t, int64_t, const float*, int64_t, int64_t, float*);
template void gemm_pack(int64_t, int64_t, const double*, int64_t, int64_t, double*);
template void gemm_packed(int64_t, int64_t, int64_t, const float*, int64_t, int64_t, const float*,
                          float*, int64_t);
template void gemm_packed(int64_t, int64_t, int64_t, const double*, int64_t, int64_t, const double*,
                          double*, int64_t);
template void gemm_batched(int64_t, int64_t, int64_t, int64_t, const float*, int64_t, int64_t,
                           int64_t, const float*, int64_t, int64_t, int64_t, float*, int64_t,
                           int64_t);
template void gemm_batched(int64_t, int64_t, int64_t, int64_t, const double*, int64_t, int64_t,
                           int64_t, const double*, int64_t, int64_t, int64_t, double*, int64_t,
                           int64_t);
template void gemm_halves(int64_t, int64_t, int64_t, const BFloat16*, int64_t, int64_t,
                          const BFloat16*, int64_t, int64_t, const HalfSums&);
template void gemm_halves(int64_t, int64_t, int64_t, const Float16*, int64_t, int64_t,
                          const Float16*, int64_t, int64_t, const HalfSums&);
template void gemm_pack_halves(int64_t, int64_t, const BFloat16*, int64_t, int64_t, float*);
template void gemm_pack_halves(int64_t, int64_t, const Float16*, int64_t, int64_t, float*);
template void gemm_packed_halves(int64_t, int64_t, int64_t, const BFloat16*, int64_t, int64_t,
                                 const float*, const HalfSums&);
template void gemm_packed_halves(int64_t, int64_t, int64_t, const Float16*, int64_t, int64_t,
                                 const float*, const HalfSums&);

}  // namespace hero::core::cpu

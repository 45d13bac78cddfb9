#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include <hero/core/cpu/caches.h>
#include <hero/core/cpu/level.h>
#include <hero/core/cpu/products/gemm_bf16.h>
#include <hero/core/cpu/products/gemm_bf16_kernel.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

// [note: how a product of halves is cut]
// A part of C (rows x columns, one chunk of the thread pool) walks over k in blocks of some chains.
// For each it packs its rows of A, which then stay in the second-level cache, and takes the columns
// of B a panel at a time down the rows. Where several parts read a panel, all of B is packed
// beforehand. With one block of k a tile of sums lives in the first-level cache until it is handed
// out; with several the part's sums wait in the second-level one, so its columns are bounded.
constexpr int64_t kBf16Block = 4 * kBf16Chain;  // elements of k packed at a time
constexpr int64_t kPartElements = 1 << 18;      // of A in the cache: 0.5 of a 1 MiB cache
constexpr int64_t kWaitingColumns = 512;        // of a part whose sums wait
constexpr int64_t kWindowRows = 512;            // of a part whose columns are packed by itself
constexpr int64_t kWaitingSums = 1 << 16;       // of such a part: 0.25 of a 1 MiB cache
constexpr int64_t kPackedTogether = 8;          // panels
constexpr int64_t kPackedSteps = 64;            // of k
constexpr int64_t kBf16PackingCost = 6;         // rows or columns of a product, as in gemm.cpp
constexpr int64_t kThreadSteps = 1 << 19;       // multiply-adds that are worth a thread (5 us)
static_assert(bf16::kColumns == kSumsColumns && kBf16Block % kBf16Chain == 0);

int64_t parts_for(int64_t x, int64_t size) { return (x + size - 1) / size; }

// [first, last) of the i-th of `parts` nearly equal parts of n.
std::pair<int64_t, int64_t> even_part(int64_t n, int64_t parts, int64_t i) {
  return {n * i / parts, n * (i + 1) / parts};
}

struct Bf16Product {
  int64_t m, n, k;
  Bf16Matrix a, b;
  const HalfSums& to;
  const bf16::TileKernel& kernel;
  const Bf16Rows* rows = nullptr;        // in place of a
  const Bf16Columns* columns = nullptr;  // in place of b
  int64_t block = kBf16Block;            // of k
  const uint32_t* packed_b = nullptr;    // where all of it is packed

  int64_t pairs() const { return (k + 1) / 2; }
  int64_t panels() const { return parts_for(n, kSumsColumns); }
  void pack_panel(int64_t panel, int64_t first, int64_t length, uint32_t* panel_to) const {
    const int64_t left = panel * kSumsColumns, count = std::min(n - left, kSumsColumns);
    if (columns != nullptr) return columns->pack(left, count, first, length, panel_to);
    bf16::pack_columns(count, length, b.data + left * b.cs + first * b.rs, b.cs, b.rs, panel_to);
  }
};

// Rows [top, bottom) and panels [first, last) of C.
class Part {
 public:
  Part(const Bf16Product& product, std::pair<int64_t, int64_t> rows,
       std::pair<int64_t, int64_t> panels)
      : p_(product),
        kernel_(product.kernel),
        top_(rows.first),
        m_(rows.second - rows.first),
        panels_(panels) {
    row_panels_ = parts_for(m_, kernel_.rows);
    depth_ = std::min(p_.block, 2 * p_.pairs());
    waits_ = p_.k > p_.block;
    by_rows_ = kernel_.is_by_rows || p_.rows != nullptr;
    // Rows that lie 4 KiB apart would share a few places of the first-level cache.
    const int64_t bytes = p_.a.rs * static_cast<int64_t>(sizeof(BFloat16));
    in_place_ = p_.rows == nullptr && p_.a.cs == 1 && p_.k % 2 == 0 && bytes % 4096 != 0;
    // A row of a tile across two cache lines takes as long as two, for each panel of columns.
    const auto place = static_cast<int64_t>(reinterpret_cast<uintptr_t>(p_.a.data));
    if (kernel_.is_by_rows && panels_.second - panels_.first > 1 &&
        (place | bytes) % kCacheLine != 0) {
      in_place_ = false;
    }
    // Some more than the pairs, for the same reason.
    row_words_ = by_rows_ ? parts_for(depth_ / 2, 16) * 16 + 16 : 0;
    panel_size_ =
        by_rows_ ? kernel_.rows * row_words_ : kernel_.rows * depth_ / 2 + bf16::kPackSlack;
    tile_ = kernel_.rows * kSumsColumns;
    const int64_t a_size = in_place_ ? 0 : row_panels_ * panel_size_ + bf16::kPackSlack;
    const int64_t b_size = p_.packed_b != nullptr ? 0 : kSumsColumns * depth_ / 2;
    const int64_t sums = waits_ ? row_panels_ * (panels_.second - panels_.first) * tile_ : tile_;
    // a multiple of a cache line each
    a_size_ = parts_for(a_size, 16) * 16;
    scratch_.emplace(a_size_ + b_size + bf16::kPackSlack);
    sums_.emplace(sums + 16 * kSumsColumns);
  }

  void run() const {
    int64_t unit = 0;
    for (int64_t first = 0; first < p_.k; first += p_.block) {
      const int64_t length = std::min(p_.block, p_.k - first);
      if (!in_place_) pack_a(first, length);
      for (int64_t panel = panels_.first; panel < panels_.second; ++panel) {
        run_panel(panel, first, length, unit);
      }
    }
    kernel_.end(unit);
  }

 private:
  void pack_a(int64_t first, int64_t length) const {
    // Rows that lie across memory share its cache lines: all panels take some steps, then the next.
    if (p_.a.rs == 1 && p_.a.cs != 1 && !by_rows_) {
      bf16::pack_panels(m_, row_panels_, length, p_.a.data + top_ + first * p_.a.cs, p_.a.cs,
                        scratch_->data(), panel_size_);
      return;
    }
    const int64_t piece = p_.a.cs == 1 || by_rows_ ? length : kPackedSteps;
    for (int64_t q = 0; q < length; q += piece) {
      for (int64_t i = 0; i < row_panels_; ++i) {
        const auto [begin, end] = even_part(m_, row_panels_, i);
        uint32_t* const to = scratch_->data() + i * panel_size_;
        if (p_.rows != nullptr) {
          p_.rows->copy(top_ + begin, end - begin, first, length, to, row_words_);
          continue;
        }
        kernel_.pack_rows(end - begin, std::min(piece, length - q),
                          p_.a.data + (top_ + begin) * p_.a.rs + (first + q) * p_.a.cs, p_.a.rs,
                          p_.a.cs, to + q / 2 * kernel_.rows, row_words_);
      }
    }
  }

  // Of the i-th panel of rows, from element q of the block that begins with element `first`.
  bf16::RowPairs rows_of_a(int64_t i, int64_t first, int64_t q) const {
    if (!in_place_) {
      const uint32_t* const packed = scratch_->data() + i * panel_size_;
      const int64_t at = q / 2 * (by_rows_ ? 1 : kernel_.rows);
      return {reinterpret_cast<const std::byte*>(packed + at),
              row_words_ * static_cast<int64_t>(sizeof(uint32_t))};
    }
    const int64_t row = top_ + even_part(m_, row_panels_, i).first;
    return {reinterpret_cast<const std::byte*>(p_.a.data + row * p_.a.rs + first + q),
            p_.a.rs * static_cast<int64_t>(sizeof(BFloat16))};
  }

  void run_panel(int64_t panel, int64_t first, int64_t length, int64_t& unit) const {
    const uint32_t* b = nullptr;
    if (p_.packed_b != nullptr) {
      b = p_.packed_b + (panel * p_.pairs() + first / 2) * kSumsColumns;
    } else {
      uint32_t* const own = scratch_->data() + a_size_;
      p_.pack_panel(panel, first, length, own);
      b = own;
    }
    const int64_t column = panel * kSumsColumns;
    const int64_t columns = std::min(kSumsColumns, p_.n - column);
    for (int64_t i = 0; i < row_panels_; ++i) {
      const auto [begin, end] = even_part(m_, row_panels_, i);
      const int64_t place = (panel - panels_.first) * row_panels_ + i;
      float* const sums = sums_->data() + (waits_ ? place * tile_ : 0);
      if (first + length == p_.k) p_.to.prefetch(top_ + begin, column, end - begin, columns);
      for (int64_t q = 0; q < length; q += kernel_.chain) {
        const int64_t pairs = (std::min(kernel_.chain, length - q) + 1) / 2;
        kernel_.multiply(pairs, end - begin, columns, rows_of_a(i, first, q),
                         b + q / 2 * kSumsColumns, sums, first + q > 0, unit);
      }
      if (first + length == p_.k) {
        p_.to.take(top_ + begin, column, end - begin, columns, sums, kSumsColumns);
      }
    }
  }

  const Bf16Product& p_;
  const bf16::TileKernel& kernel_;
  int64_t top_, m_;
  std::pair<int64_t, int64_t> panels_;
  int64_t row_panels_, depth_, row_words_, panel_size_, tile_, a_size_;
  bool waits_, by_rows_, in_place_;
  std::optional<Workspace<uint32_t>> scratch_;
  std::optional<Workspace<float>> sums_;
};

struct Cut {
  int64_t rows, columns;  // number of parts
};

// The cut that ends first: the largest part, packing included, times the parts that one thread
// gets. It may depend on the number of threads because the bits do not depend on it.
Cut choose_cut(const Bf16Product& p, int64_t threads) {
  const int64_t height = std::max(p.kernel.rows, kPartElements / std::min(p.k, kBf16Block));
  const int64_t row_parts = parts_for(p.m, height), panels = p.panels();
  const int64_t least = p.k > p.block ? parts_for(p.n, kWaitingColumns) : 1;
  Cut best{row_parts, least};
  int64_t best_cost = INT64_MAX;
  for (int64_t columns = least; columns <= std::min(std::max(threads, 2 * least), panels);
       ++columns) {
    const int64_t multiple = threads / std::gcd(threads, columns);
    for (const int64_t rows : {row_parts, parts_for(row_parts, multiple) * multiple}) {
      if (rows > p.m) continue;
      const int64_t tall = parts_for(p.m, rows);
      const int64_t wide = parts_for(panels, columns) * kSumsColumns;
      const int64_t cost =
          parts_for(rows * columns, threads) * (tall * wide + kBf16PackingCost * (tall + wide));
      if (cost < best_cost) {
        best_cost = cost;
        best = {rows, columns};
      }
    }
  }
  return best;
}

// Some panels side by side and some steps of k at a time: where B lies by rows, what follows in
// memory is read next.
void pack_all(const Bf16Product& p, uint32_t* to) {
  const int64_t size = p.pairs() * kSumsColumns;
  parallel_for(parts_for(p.panels(), kPackedTogether), 1, [&](int64_t begin, int64_t end) {
    const int64_t last = std::min(p.panels(), end * kPackedTogether);
    for (int64_t first = 0; first < p.k; first += kPackedSteps) {
      for (int64_t panel = begin * kPackedTogether; panel < last; ++panel) {
        p.pack_panel(panel, first, std::min(kPackedSteps, p.k - first),
                     to + panel * size + first / 2 * kSumsColumns);
      }
    }
  });
}

void run_parts(Bf16Product p) {
  const int64_t allowed = in_parallel_region() ? 1 : num_threads();
  const Cut cut = choose_cut(p, std::clamp<int64_t>(p.m * p.n * p.k / kThreadSteps, 1, allowed));
  std::optional<Workspace<uint32_t>> all;
  if (cut.rows > 1 && p.packed_b == nullptr) {
    all.emplace(packed_bf16_words(p.n, p.k));
    pack_all(p, all->data());
    p.packed_b = all->data();
  }
  parallel_for(cut.rows * cut.columns, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Part(p, even_part(p.m, cut.rows, i / cut.columns),
           even_part(p.panels(), cut.columns, i % cut.columns))
          .run();
    }
  });
}

// Columns that are packed by each part: blocks of k so short that many rows of A fit into the
// cache, and as many columns beside them as sums may wait.
void run_columns(Bf16Product p) {
  const int64_t rows = parts_for(p.m, kWindowRows), height = parts_for(p.m, rows);
  if (height * std::min(p.k, kBf16Block) > kPartElements) p.block = kBf16Chain;
  const int64_t allowed = in_parallel_region() ? 1 : num_threads(), panels = p.panels();
  const int64_t threads = std::clamp<int64_t>(p.m * p.n * p.k / kThreadSteps, 1, allowed);
  const int64_t most =
      p.k > p.block ? std::max<int64_t>(1, kWaitingSums / (height * kSumsColumns)) : panels;
  const int64_t multiple = panels >= 16 * threads ? 2 * threads : threads;
  const int64_t columns = std::min(panels, parts_for(parts_for(panels, most), multiple) * multiple);
  parallel_for(rows * columns, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Part(p, even_part(p.m, rows, i / columns), even_part(panels, columns, i % columns)).run();
    }
  });
}

// A few rows and a weight as linear layers have it: B is read once, and not copied.
bool is_few(const Bf16Product& p) { return p.m <= bf16::kFewRows && p.a.cs == 1 && p.b.rs == 1; }

void run_few(const Bf16Product& p) {
  constexpr int64_t kVector = 16;
  constexpr int64_t kPiecesInRow = 32;      // each of which asks for the lines of the next
  constexpr int64_t kPieceAhead = 1 << 17;  // elements: two such pieces fit half of 1 MiB
  constexpr int64_t kColumnAhead = 256;     // elements of a column, where pieces are larger
  constexpr int64_t kLine = 32;             // elements of a cache line
  // Where columns follow one another in memory the next piece does.
  const bool next = p.b.cs == p.k && kVector * p.k <= kPieceAhead;
  const bf16::FewRows few{p.m,
                          p.k,
                          kBf16Chain,
                          p.a.data,
                          p.a.rs,
                          p.b.cs,
                          next ? kVector * p.k : kColumnAhead,
                          next ? kLine : p.b.cs,
                          next ? kVector : 1};
  const int64_t pieces = parts_for(p.n, kVector);
  const int64_t grain = std::max(
      {int64_t{1}, std::min(kPiecesInRow, pieces / 8), kThreadSteps / 8 / (p.k * kVector)});
  parallel_for(pieces, grain, [&](int64_t begin, int64_t end) {
    float sums[bf16::kFewRows * kSumsColumns];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i * kVector, columns = std::min(kVector, p.n - column);
      bf16::multiply_few(few, columns, p.b.data + column * p.b.cs, sums);
      p.to.take(0, column, p.m, columns, sums, kSumsColumns);
    }
  });
}

// C^T in place of C: where C has few rows, those of the other operand are read where they lie.
void run_turned(const Bf16Product& p) {
  const Bf16Matrix a{p.b.data, p.b.cs, p.b.rs}, b{p.a.data, p.a.cs, p.a.rs};
  const TurnedSums to(p.to);
  run_parts({p.n, p.m, p.k, a, b, to, p.kernel});
}

// Of no steps.
void hand_out_zeros(const Bf16Product& p) {
  for (int64_t row = 0; row < p.m; row += bf16::kRows) {
    for (int64_t column = 0; column < p.n; column += kSumsColumns) {
      float sums[16 * kSumsColumns] = {};
      p.to.take(row, column, std::min<int64_t>(bf16::kRows, p.m - row),
                std::min(kSumsColumns, p.n - column), sums, kSumsColumns);
    }
  }
}

}  // namespace

void gemm_bf16(const bf16::TileKernel& kernel, int64_t m, int64_t n, int64_t k, const Bf16Matrix& a,
               const Bf16Matrix& b, const HalfSums& to) {
  if (m <= 0 || n <= 0) return;
  const Bf16Product product{m, n, k, a, b, to, kernel};
  if (k <= 0) return hand_out_zeros(product);
  if (!is_few(product)) return run_parts(product);
  kernel.is_by_rows ? run_turned(product) : run_few(product);
}

void gemm_bf16(const bf16::TileKernel& kernel, int64_t m, int64_t n, int64_t k, const Bf16Matrix& a,
               const Bf16Columns& b, const HalfSums& to) {
  Bf16Product product{m, n, k, a, {}, to, kernel};
  product.columns = &b;
  if (m > 0 && n > 0) k > 0 ? run_columns(product) : hand_out_zeros(product);
}

void gemm_bf16(const bf16::TileKernel& kernel, int64_t m, int64_t n, int64_t k, const Bf16Rows& a,
               const Bf16Columns& b, const HalfSums& to) {
  Bf16Product product{m, n, k, {}, {}, to, kernel};
  product.rows = &a;
  product.columns = &b;
  if (m > 0 && n > 0) k > 0 ? run_parts(product) : hand_out_zeros(product);
}

int64_t packed_bf16_words(int64_t n, int64_t k) {
  return parts_for(n, kSumsColumns) * kSumsColumns * parts_for(k, 2) + bf16::kPackSlack;
}

void pack_bf16(int64_t n, int64_t k, const Bf16Matrix& b, uint32_t* to) {
  struct Nowhere final : HalfSums {
    void take(int64_t, int64_t, int64_t, int64_t, float*, int64_t) const override {}
  };
  pack_all({0, n, k, {}, b, Nowhere{}, bf16::native_kernel()}, to);
}

void gemm_bf16(const bf16::TileKernel& kernel, int64_t m, int64_t n, int64_t k, const Bf16Matrix& a,
               const uint32_t* packed_b, const HalfSums& to) {
  Bf16Product product{m, n, k, a, {}, to, kernel};
  product.packed_b = packed_b;
  if (m > 0 && n > 0) k > 0 ? run_parts(product) : hand_out_zeros(product);
}

const bf16::TileKernel& bf16::native_kernel() {
  return level() == Level::amx ? amx_kernel() : dot_kernel();
}

void gemm_bf16(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a, const Bf16Matrix& b,
               const HalfSums& to) {
  gemm_bf16(bf16::native_kernel(), m, n, k, a, b, to);
}

void gemm_bf16(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a, const Bf16Matrix& b, float* c,
               int64_t c_rs, bool add) {
  gemm_bf16(m, n, k, a, b, SumsIntoFloats(c, c_rs, add));
}

void gemm_bf16(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a, const Bf16Matrix& b,
               BFloat16* c, int64_t c_rs) {
  gemm_bf16(m, n, k, a, b, SumsIntoHalves(c, c_rs));
}

void gemm_bf16_packed(int64_t m, int64_t n, int64_t k, const Bf16Matrix& a, const uint32_t* b,
                      const HalfSums& to) {
  gemm_bf16(bf16::native_kernel(), m, n, k, a, b, to);
}

}  // namespace hero::core::cpu

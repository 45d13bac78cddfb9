// LU factors by recursive halving of the columns (Toledo, "Locality of reference in LU
// decomposition with partial pivoting", 1997).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/products/factors.h>
#include <hero/core/cpu/products/gemm.h>
#include <hero/core/cpu/products/transpose.h>
#include <hero/core/cpu/products/triangular.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/functions/matrix_batch.h>

namespace hero::core::cpu {

using namespace linalg;

namespace {

using micro::Vector;

// The first of the elements of largest magnitude; NaN counts as larger than all. What lies within a
// vector behind them is read.
template <class T>
[[gnu::noinline]] int64_t largest_of(const T* x, int64_t n) {
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef Bits BitVector __attribute__((vector_size(micro::kVectorBytes)));
  constexpr int lanes = micro::kLanes<T>;
  BitVector index, at = {}, largest = BitVector{} - 1;
  for (int l = 0; l < lanes; ++l) index[l] = l;
  for (int64_t i = 0; i < n; i += lanes) {
    BitVector bits;
    std::memcpy(&bits, x + i, sizeof(bits));
    // Magnitudes have the order of their bits.
    bits = index < static_cast<Bits>(n) ? bits & std::numeric_limits<Bits>::max() : -1;
    const auto more = bits > largest;
    largest = more ? bits : largest;
    at = more ? index : at;
    index += lanes;
  }
  int best = 0;
  for (int l = 1; l < lanes; ++l) {
    if (largest[l] > largest[best] || (largest[l] == largest[best] && at[l] < at[best])) best = l;
  }
  return at[best];
}

// The same of a few columns, where vectors would be empty: the operations on an element, and so its
// bits, are those of the panel.
template <class T>
bool factor_few(int64_t rows, int64_t n, T* a, int64_t* pivots) {
  bool regular = true;
  for (int64_t k = 0; k < std::min(rows, n); ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; i < rows; ++i) {
      const T former = std::abs(a[best * n + k]), size = std::abs(a[i * n + k]);
      // NaN counts as larger than all
      if (size > former || (std::isnan(size) && !std::isnan(former))) best = i;
    }
    pivots[k] = best;
    if (best != k) std::swap_ranges(a + k * n, a + (k + 1) * n, a + best * n);
    const T* const row = a + k * n;
    if (row[k] == T(0)) regular = false;
    for (int64_t i = k + 1; row[k] != T(0) && i < rows; ++i) {
      T* const other = a + i * n;
      other[k] /= row[k];
      for (int64_t j = k + 1; j < n; ++j) {
        other[j] = micro::multiply_add(-row[j], other[k], other[j]);
      }
    }
  }
  return regular;
}

template <class T>
class LuFactors {
 public:
  LuFactors(int64_t rows, int64_t columns, T* a, int64_t* pivots)
      : rows_(rows),
        n_(columns),
        a_(a),
        pivots_(pivots),
        step_((rows + micro::kLanes<T> - 1) / micro::kLanes<T> * micro::kLanes<T> +
              micro::kLanes<T>),
        panel_(kFactorBlock * step_) {}

  void factor() {
    const int64_t inner = std::min(rows_, n_), right = n_ - inner;
    factor(0, inner);
    if (right == 0) return;
    exchange_rows(0, inner, inner, right);
    TriangularSystem<T>{false, true, inner, right, a_, n_, 1, a_ + inner, n_}.solve();
  }
  bool regular() const { return regular_; }

 private:
  [[gnu::noinline, gnu::noclone]] void factor(int64_t first, int64_t count) {
    if (count <= kFactorBlock) return factor_panel(first, count);
    const int64_t left = factor_half(count), right = count - left, middle = first + left;
    factor(first, left);
    exchange_rows(first, left, middle, right);
    T* const corner = a_ + first * n_;
    TriangularSystem<T>{false, true, left, right, corner + first, n_, 1, corner + middle, n_}
        .solve();
    T* const below = a_ + middle * n_;
    gemm_add<T>(rows_ - middle, right, left, below + first, n_, 1, corner + middle, n_, 1,
                below + middle, n_, T(-1));
    factor(middle, right);
    exchange_rows(middle, right, first, left);
  }

  // In columns [column, column + columns), as was done for the pivots [first, first + count).
  [[gnu::noinline]] void exchange_rows(int64_t first, int64_t count, int64_t column,
                                       int64_t columns) const {
    for (int64_t k = first; k < first + count; ++k) {
      if (pivots_[k] == k) continue;
      T* const row = a_ + k * n_ + column;
      std::swap_ranges(row, row + columns, a_ + pivots_[k] * n_ + column);
    }
  }

  // Few columns, of the rows from `first` on: turned, so that vectors hold what is below each
  // other.
  [[gnu::noinline]] void factor_panel(int64_t first, int64_t count) {
    const int64_t rows = rows_ - first;
    T* const from = a_ + first * n_ + first;
    T* const panel = panel_.data();
    transpose(rows, count, from, n_, panel, step_);
    for (int64_t k = 0; k < count; ++k) {
      T* const column = panel + k * step_;
      const int64_t pivot = k + largest_of(column + k, rows - k);
      pivots_[first + k] = first + pivot;
      if (pivot != k) {
        for (int64_t j = 0; j < count; ++j) {
          std::swap(panel[j * step_ + k], panel[j * step_ + pivot]);
        }
      }
      eliminate(k, count, rows);
    }
    transpose(count, rows, panel, step_, from, n_);
  }

  void eliminate(int64_t k, int64_t count, int64_t rows) {
    constexpr int64_t lanes = micro::kLanes<T>;
    T* const column = panel_.data() + k * step_;
    const T pivot = column[k];
    // All below are 0, too.
    if (pivot == T(0)) {
      regular_ = false;
      return;
    }
    // Whole vectors: what they hold behind the last row is not looked at.
    for (int64_t i = k + 1; i < rows; i += lanes) {
      micro::store<T>(column + i, micro::load(column + i) / pivot);
    }
    for (int64_t j = k + 1; j < count; ++j) {
      T* const other = panel_.data() + j * step_;
      const Vector<T> x = -other[k] - Vector<T>{};
      for (int64_t i = k + 1; i < rows; i += lanes) {
        const Vector<T> sum = micro::load(other + i);
        micro::store<T>(other + i, micro::multiply_add<T>(x, micro::load(column + i), sum));
      }
    }
  }

  int64_t rows_, n_;  // a row has n_ elements
  T* a_;
  int64_t* pivots_;
  int64_t step_;  // between the columns of the panel, with room for vectors that begin anywhere
  Workspace<T> panel_;
  bool regular_ = true;
};

// Exchanges rows of b as was done for the pivots, or back.
template <class T>
void apply_pivots(const int64_t* pivots, int64_t n, bool back, int64_t columns, T* b) {
  for (int64_t step = 0; step < n; ++step) {
    const int64_t k = back ? n - 1 - step : step;
    if (pivots[k] == k) continue;
    std::swap_ranges(b + k * columns, b + (k + 1) * columns, b + pivots[k] * columns);
  }
}

}  // namespace

template <class T>
bool factor_lu(int64_t rows, int64_t columns, T* a, int64_t* pivots) {
  constexpr int64_t kFew = 8;
  if (rows <= kFew && columns <= kFew) return factor_few(rows, columns, a, pivots);
  LuFactors<T> factors(rows, columns, a, pivots);
  factors.factor();
  return factors.regular();
}

template bool factor_lu(int64_t, int64_t, float*, int64_t*);
template bool factor_lu(int64_t, int64_t, double*, int64_t*);

std::optional<int64_t> BasicKernels::run(const call::FactorLU& call) {
  const Array& a = call.a;
  const int64_t rows = a.size(-2), columns = a.size(-1), inner = std::min(rows, columns);
  return with_floats(a, [&]<class T>(TypeTag<T>) {
    return first_without(batch_of(a), rows * columns * inner, [&](int64_t i) {
      return factor_lu(rows, columns, a.data<T>() + i * rows * columns,
                       call.pivots.data<int64_t>() + i * inner);
    });
  });
}

void BasicKernels::run(const call::SolveLU& call) {
  const Array& a = call.factors;
  const Shape batch = batch_of(call.b);
  const int64_t n = a.size(-1), columns = call.b.size(-1);
  with_floats(a, [&]<class T>(TypeTag<T>) {
    const Batch factors(a.contiguous(), batch), result(call.b, batch);
    const Batch pivots(call.pivots.reshape(matrices(batch_of(a), 1, n)), batch);
    each_matrix(batch, n * n * columns, [&](int64_t i) {
      T *const x = result.at<T>(i), *const f = factors.at<T>(i);
      if (!call.turned) apply_pivots(pivots.at<int64_t>(i), n, false, columns, x);
      const int64_t row = call.turned ? 1 : n, column = call.turned ? n : 1;
      TriangularSystem<T>{false, !call.turned, n, columns, f, row, column, x, columns}.solve();
      TriangularSystem<T>{true, call.turned, n, columns, f, row, column, x, columns}.solve();
      if (call.turned) apply_pivots(pivots.at<int64_t>(i), n, true, columns, x);
    });
  });
}

}  // namespace hero::core::cpu

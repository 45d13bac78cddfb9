// Singular values in three steps: reflections from both sides make the matrix bidiagonal, the
// products of the reflections are formed, and rotations make it diagonal (bidiagonal.h). See Golub
// and Van Loan, "Matrix Computations", 5.4 and 8.6.
// Rows are contiguous here, so the code works on the transposed matrix, whose columns they are: its
// left vectors have `columns` elements, its right ones `rows`.
#include <algorithm>
#include <cmath>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/products/reflections.h>
#include <hero/core/cpu/products/wide_svd.h>

namespace hero::core::cpu {

namespace {

// The matrix, as the vectors it was made of, becomes the reflections from the left; those from the
// right are kept beside it.
template <class T>
class BidiagonalReduction {
 public:
  using V = LaneVector<T>;
  static constexpr int64_t kWidth = Wide<T>::kWidth;

  BidiagonalReduction(VectorList<T>& matrix, Bidiagonal<T>& to)
      : left(matrix),
        right(matrix.count(), matrix.count()),
        left_factors(static_cast<size_t>(matrix.count())),
        right_factors(static_cast<size_t>(matrix.count())),
        to_(to),
        along_(static_cast<size_t>(matrix.count())),
        across_(1, matrix.length()) {}

  void run() {
    const int64_t n = left.count();
    begin_column(0);
    update(0, 1, nullptr);
    for (int64_t k = 0; k + 1 < n; ++k) {
      const T share = begin_row(k);
      combine(k, right[k], share);
      // The next column first, since what is done to the others needs its reflection.
      take_off(left[k + 1], left[k], along_[static_cast<size_t>(k + 1)], right[k][k + 1], k);
      begin_column(k + 1);
      update(k + 1, k + 2, left[k]);
    }
  }

  VectorList<T>& left;
  VectorList<T> right;
  std::vector<T> left_factors, right_factors;

 private:
  void begin_column(int64_t k) {
    const Reflection<T> r = reflect(left[k], k, left.length());
    left_factors[static_cast<size_t>(k)] = r.factor;
    to_.d[static_cast<size_t>(k)] = r.length;
  }

  // Row k behind the diagonal, as the reflection of column k leaves it, becomes a reflection
  // itself. Gives the sum of its elements times those of along.
  T begin_row(int64_t k) {
    const int64_t n = left.count();
    T* const w = right[k];
    for (int64_t j = k + 1; j < n; ++j) w[j] = left[j][k] - along_[static_cast<size_t>(j)];
    const Reflection<T> r = reflect(w, k + 1, right.length());
    right_factors[static_cast<size_t>(k)] = r.factor;
    to_.e[static_cast<size_t>(k)] = r.length;
    T share = T(0);
    for (int64_t j = k + 1; j < n; ++j) share += w[j] * along_[static_cast<size_t>(j)];
    return share;
  }

  // across = factor (sum of w_j (column j - along_j u)), of the columns behind k.
  void combine(int64_t k, const T* w, T share) {
    constexpr int64_t kVectors = 8;
    const int64_t n = left.count(), begin = VectorList<T>::lanes_of(k);
    const int64_t pieces = (left.length() - begin + kVectors * kWidth - 1) / (kVectors * kWidth);
    const T factor = right_factors[static_cast<size_t>(k)];
    parallel_for(pieces, grain_of(kVectors * kWidth * (n - k)), [&](int64_t first, int64_t last) {
      for (int64_t piece = first; piece < last; ++piece) {
        const int64_t at = begin + piece * kVectors * kWidth;
        const int64_t vectors = std::min(kVectors, (left.length() - at) / kWidth);
        V sums[kVectors] = {};
        for (int64_t j = k + 1; j < n; ++j) {
          const T* const column = left[j] + at;
          if (vectors == kVectors) {
            for (int64_t v = 0; v < kVectors; ++v) sums[v] += w[j] * lanes_at(column + v * kWidth);
          } else {
            for (int64_t v = 0; v < vectors; ++v) sums[v] += w[j] * lanes_at(column + v * kWidth);
          }
        }
        for (int64_t v = 0; v < vectors; ++v) {
          const V sum = factor * (sums[v] - share * lanes_at(left[k] + at + v * kWidth));
          lanes_at(across_[0] + at + v * kWidth) = sum;
        }
      }
    });
  }

  // x -= a u + b across, from element k on.
  void take_off(T* x, const T* u, T a, T b, int64_t k) const {
    for (int64_t i = VectorList<T>::lanes_of(k); i < left.length(); i += kWidth) {
      const V v = lanes_at(x + i) - (a * lanes_at(u + i) + b * lanes_at(across_[0] + i));
      lanes_at(x + i) = v;
    }
  }

  // Columns from `first` on: takes off what the reflections before left over (none where `before`
  // is null), and finds along_j = factor u^T column j, of the u of column k.
  void update(int64_t k, int64_t first, const T* before) {
    const int64_t n = left.count(), length = left.length();
    const T factor = left_factors[static_cast<size_t>(k)];
    const T* const u = left[k];
    const T* const z = across_[0];
    const T* const w = before == nullptr ? nullptr : right[k - 1];
    parallel_for(n - first, grain_of(2 * (length - k)), [&](int64_t begin, int64_t end) {
      for (int64_t j = first + begin; j < first + end; ++j) {
        T* const x = left[j];
        const T a = along_[static_cast<size_t>(j)], b = w == nullptr ? T(0) : w[j];
        V even = {}, odd = {};
        const auto one = [&](int64_t i, V & sum) __attribute__((always_inline)) {
          V v = lanes_at(x + i);
          if (before != nullptr) {
            v -= a * lanes_at(before + i) + b * lanes_at(z + i);
            lanes_at(x + i) = v;
          }
          sum += v * lanes_at(u + i);
        };
        int64_t i = VectorList<T>::lanes_of(k);
        for (; i + kWidth < length; i += 2 * kWidth) {
          one(i, even);
          one(i + kWidth, odd);
        }
        if (i < length) one(i, even);
        along_[static_cast<size_t>(j)] = factor * sum_of_lanes<T>(even + odd);
      }
    });
  }

  static int64_t grain_of(int64_t work) { return std::max<int64_t>(1, 2 * kGrain / work); }

  Bidiagonal<T>& to_;
  std::vector<T> along_;
  VectorList<T> across_;
};

}  // namespace

template <class T>
bool WideSVD<T>::run() const {
  T largest = T(0);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < columns; ++k) {
      largest = std::max(largest, std::abs(a[i * row_step + k * column_step]));
    }
  }
  const PowerOfTwo<T> unit(largest);
  VectorList<T> matrix(rows, columns);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < columns; ++k) {
      matrix[i][k] = unit.divided(a[i * row_step + k * column_step]);
    }
  }
  Bidiagonal<T> bidiagonal(rows);
  BidiagonalReduction<T> reduction(matrix, bidiagonal);
  reduction.run();
  const VectorList<T> left(rows, columns), right(rows, rows);
  form_product(reduction.left, reduction.left_factors, 0, left);
  form_product(reduction.right, reduction.right_factors, 1, right);
  if (!bidiagonal.diagonalize([&](const Sweeps<T>& sweeps) { rotate(left, right, sweeps); })) {
    return false;
  }
  const auto value = [&](int64_t i) { return bidiagonal.d[static_cast<size_t>(i)]; };
  std::vector<T> sizes(static_cast<size_t>(rows));  // below 0: the largest first
  for (int64_t i = 0; i < rows; ++i) sizes[static_cast<size_t>(i)] = -std::abs(value(i));
  const std::vector<int64_t> order = order_of(sizes);
  for (int64_t j = 0; j < rows; ++j) {
    const int64_t i = order[static_cast<size_t>(j)];
    const T sign = value(i) < T(0) ? T(-1) : T(1);
    s[j] = unit.times(std::abs(value(i)));
    for (int64_t k = 0; k < rows; ++k) p[j * rows + k] = sign * right[i][k];
    std::copy_n(left[i], columns, q + j * columns);
  }
  return true;
}

template struct WideSVD<float>;
template struct WideSVD<double>;

}  // namespace hero::core::cpu

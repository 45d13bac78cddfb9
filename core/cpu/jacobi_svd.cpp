// One-sided Jacobi rotations: pairs of rows are turned until all are orthogonal, whose lengths are
// the singular values then. See Hestenes, "Inversion of matrices by biorthogonalization" (1958),
// and for the order of blocks, whose pairs are independent, Brent and Luk, "The solution of
// singular-value and symmetric eigenvalue problems on multiprocessor arrays" (1985).
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/jacobi_svd.h>
#include <hero/core/cpu/row_sums.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

constexpr int64_t kBlockRows = 8;  // two blocks of a few hundred columns fit the first-level cache
constexpr int kMostSweeps = 60;    // rotations converge in six to twelve

template <class T>
int64_t whole_lanes(int64_t n) {
  return (n + Wide<T>::kWidth - 1) / Wide<T>::kWidth * Wide<T>::kWidth;
}

// Rows [w | v], each part filled up with zeros to whole lanes: w is what becomes orthogonal, v
// follows it.
template <class T>
class TurnedRows {
 public:
  using V = typename Wide<T>::type;
  static constexpr int64_t kWidth = Wide<T>::kWidth;

  TurnedRows(int64_t rows, int64_t columns)
      : rows_(rows),
        own_(whole_lanes<T>(columns)),
        // One vector more, so that rows do not share the places of a cache.
        step_(own_ + whole_lanes<T>(rows) + kWidth),
        room_(rows_ * step_),
        // What rounding makes of the product of orthogonal rows (Demmel and Veselic, "Jacobi's
        // method is more accurate than QR", 1992).
        least_(std::numeric_limits<T>::epsilon() * std::sqrt(static_cast<T>(columns))) {
    std::fill_n(room_.data(), rows_ * step_, T(0));
    for (int64_t i = 0; i < rows_; ++i) v(i)[i] = T(1);
  }
  T* w(int64_t i) const { return room_.data() + i * step_; }
  T* v(int64_t i) const { return w(i) + own_; }

  void orthogonalize() const {
    const int64_t pairs = ((rows_ + kBlockRows - 1) / kBlockRows + 1) / 2;
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      std::atomic<bool> turned = false;
      // As in a tournament of an even number of blocks, in which each meets each once.
      const int64_t rounds = 2 * pairs - 1;
      for (int64_t round = 0; round < rounds; ++round) {
        const int64_t grain = kGrain / (kBlockRows * kBlockRows * step_) + 1;
        parallel_for(pairs, grain, [&](int64_t begin, int64_t end) {
          bool any = false;
          for (int64_t k = begin; k < end; ++k) {
            const int64_t a = k == 0 ? rounds : (round + k) % rounds;
            any = turn_blocks(a, (round - k + rounds) % rounds, round == 0) || any;
          }
          if (any) turned = true;
        });
      }
      if (!turned) return;
    }
  }

 private:
  int64_t first_of(int64_t block) const { return std::min(rows_, block * kBlockRows); }

  bool turn_blocks(int64_t a, int64_t b, bool within) const {
    if (a > b) std::swap(a, b);
    bool any = false;
    if (within) any = turn_within(a) | (a != b && turn_within(b));
    if (a == b) return any;
    for (int64_t i = first_of(a); i < first_of(a + 1); ++i) {
      for (int64_t j = first_of(b); j < first_of(b + 1); ++j) any = turn(i, j) || any;
    }
    return any;
  }
  bool turn_within(int64_t block) const {
    bool any = false;
    for (int64_t i = first_of(block); i < first_of(block + 1); ++i) {
      for (int64_t j = i + 1; j < first_of(block + 1); ++j) any = turn(i, j) || any;
    }
    return any;
  }

  // Makes rows i < j orthogonal, the longer one row i, unless they are.
  bool turn(int64_t i, int64_t j) const {
    T of_i, of_j, between;
    products(w(i), w(j), of_i, of_j, between);
    if (!(std::abs(between) > least_ * (std::sqrt(of_i) * std::sqrt(of_j)))) return false;
    const T *longer = w(i), *shorter = w(j);
    if (of_i < of_j) {
      std::swap(longer, shorter);
      std::swap(of_i, of_j);
    }
    const T apart = (of_j - of_i) / (T(2) * between);
    // Where the 1 does not count its square may overflow.
    const T reach = std::abs(apart) < T(1) / std::numeric_limits<T>::epsilon()
                        ? std::sqrt(T(1) + apart * apart)
                        : std::abs(apart);
    const T tangent = (apart < T(0) ? T(-1) : T(1)) / (std::abs(apart) + reach);
    const T cosine = T(1) / std::sqrt(T(1) + tangent * tangent), sine = cosine * tangent;
    T *to_i = w(i), *to_j = w(j);
    for (int64_t at = 0; at < step_ - kWidth; at += kWidth) {
      V x, y;
      Wide<T>::load(longer + at, x);
      Wide<T>::load(shorter + at, y);
      const V first = cosine * x - sine * y, second = sine * x + cosine * y;
      std::memcpy(to_i + at, &first, sizeof(V));
      std::memcpy(to_j + at, &second, sizeof(V));
    }
    return true;
  }

  // |x|^2, |y|^2 and x y.
  void products(const T* x, const T* y, T& of_x, T& of_y, T& between) const {
    V sums[3] = {}, a, b;
    for (int64_t at = 0; at < own_; at += kWidth) {
      Wide<T>::load(x + at, a);
      Wide<T>::load(y + at, b);
      sums[0] += a * a;
      sums[1] += b * b;
      sums[2] += a * b;
    }
    T lane[3][kWidth];
    std::memcpy(lane, sums, sizeof(sums));
    for (int64_t width = kWidth / 2; width > 0; width /= 2) {
      for (auto& each : lane) {
        for (int64_t k = 0; k < width; ++k) each[k] += each[k + width];
      }
    }
    of_x = lane[0][0];
    of_y = lane[1][0];
    between = lane[2][0];
  }

  int64_t rows_, own_, step_;
  Workspace<T> room_;
  T least_;
};

template <class T>
T row_product(const T* x, const T* y, int64_t n) {
  return sum_of<T>(n, [&](int64_t i) { return x[i] * y[i]; });
}

// Row j of q, of `columns` elements, as a unit vector that is orthogonal to the rows before it:
// where a singular value is 0, or does not count beside the largest, any will do. There is one
// among the axes that keeps a length of sqrt(1 - j / columns) at least.
template <class T>
void complete_row(T* q, int64_t j, int64_t columns) {
  T* const row = q + j * columns;
  const T enough = std::sqrt(T(0.5) / static_cast<T>(columns));
  for (int64_t axis = 0; axis < columns; ++axis) {
    std::fill_n(row, columns, T(0));
    row[axis] = T(1);
    for (int pass = 0; pass < 2; ++pass) {  // once more against what rounding left
      for (int64_t i = 0; i < j; ++i) {
        const T* other = q + i * columns;
        const T along = row_product(row, other, columns);
        for (int64_t k = 0; k < columns; ++k) row[k] -= along * other[k];
      }
    }
    const T length = std::sqrt(row_product(row, row, columns));
    if (length < enough) continue;
    for (int64_t k = 0; k < columns; ++k) row[k] /= length;
    return;
  }
}

}  // namespace

template <class T>
void WideSVD<T>::run() const {
  T largest = T(0);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < columns; ++k) {
      largest = std::max(largest, std::abs(a[i * row_step + k * column_step]));
    }
  }
  // By powers of two, which round nothing: squares neither overflow nor vanish. By two of them,
  // since one may be out of range.
  int exponent = 0;
  std::frexp(largest, &exponent);
  const T half = std::ldexp(T(1), -exponent / 2), rest = std::ldexp(T(1), -exponent + exponent / 2);
  const TurnedRows<T> turned(rows, columns);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < columns; ++k) {
      turned.w(i)[k] = a[i * row_step + k * column_step] * half * rest;
    }
  }
  turned.orthogonalize();
  std::vector<T> lengths(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) {
    lengths[static_cast<size_t>(i)] = std::sqrt(row_product(turned.w(i), turned.w(i), columns));
  }
  // Squares of shorter rows have lost digits, and with them their products.
  const T least = std::sqrt(std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon());
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    return lengths[static_cast<size_t>(i)] > lengths[static_cast<size_t>(j)];
  });
  for (int64_t j = 0; j < rows; ++j) {
    const int64_t i = order[static_cast<size_t>(j)];
    const T length = lengths[static_cast<size_t>(i)];
    s[j] = std::ldexp(length, exponent);
    std::copy_n(turned.v(i), rows, p + j * rows);
    if (length < least) {
      complete_row(q, j, columns);
    } else {
      for (int64_t k = 0; k < columns; ++k) q[j * columns + k] = turned.w(i)[k] / length;
    }
  }
}

template struct WideSVD<float>;
template struct WideSVD<double>;

}  // namespace hero::core::cpu

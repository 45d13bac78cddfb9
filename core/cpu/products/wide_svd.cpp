// Singular values in three steps: reflections from both sides make the matrix bidiagonal, the
// products of the reflections are formed, and rotations make it diagonal (bidiagonal.h). See Golub
// and Van Loan, "Matrix Computations", 5.4 and 8.6.
// Rows are what is contiguous here, so all of this is said of the transposed matrix, whose columns
// they are: its left vectors have `columns` elements, its right ones `rows`.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/products/bidiagonal.h>
#include <hero/core/cpu/products/wide_svd.h>
#include <hero/core/cpu/reduce/row_sums.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

// Vectors of one length, filled up with zeros to whole lanes.
template <class T>
class VectorList {
 public:
  using V = typename Wide<T>::type;
  static constexpr int64_t kWidth = Wide<T>::kWidth;

  VectorList(int64_t count, int64_t length)
      : count_(count),
        own_((length + kWidth - 1) / kWidth * kWidth),
        step_(own_ + kWidth),  // so that vectors do not share the places of a cache
        room_(count * step_) {
    std::fill_n(room_.data(), count * step_, T(0));
  }
  T* operator[](int64_t i) const { return room_.data() + i * step_; }
  int64_t count() const { return count_; }
  int64_t length() const { return own_; }
  // Where the lanes begin that contain element i.
  static int64_t lanes_of(int64_t i) { return i / kWidth * kWidth; }

 private:
  int64_t count_, own_, step_;
  Workspace<T> room_;
};

template <class T>
using LaneVector = typename Wide<T>::type;

// The lanes that begin at an element, of whatever alignment.
template <class T>
struct LanesAt {
  typedef T type __attribute__((vector_size(64), aligned(4), may_alias));
};
template <class T>
const typename LanesAt<T>::type& lanes_at(const T* from) {
  return *reinterpret_cast<const typename LanesAt<T>::type*>(from);
}
template <class T>
typename LanesAt<T>::type& lanes_at(T* from) {
  return *reinterpret_cast<typename LanesAt<T>::type*>(from);
}

template <class T>
[[gnu::always_inline]] inline T sum_of_lanes(const LaneVector<T>& v) {
  T lane[Wide<T>::kWidth];
  std::memcpy(lane, &v, sizeof(v));
  for (int64_t width = Wide<T>::kWidth / 2; width > 0; width /= 2) {
    for (int64_t k = 0; k < width; ++k) lane[k] += lane[k + width];
  }
  return lane[0];
}

// A reflection 1 - factor u u^T, whose u has zeros before element `first` and 1 there.
template <class T>
struct Reflection {
  T factor = T(0);
  T length = T(0);  // what element `first` becomes; those behind it become 0
};

// Turns x into the u of the reflection that leaves nothing behind element `first`.
template <class T>
Reflection<T> reflect(T* x, int64_t first, int64_t length) {
  using V = LaneVector<T>;
  const int64_t begin = VectorList<T>::lanes_of(first);
  const T top = x[first];
  std::fill(x + begin, x + first + 1, T(0));
  V squares = {};
  for (int64_t i = begin; i < length; i += Wide<T>::kWidth) {
    const V v = lanes_at(x + i);
    squares += v * v;
  }
  const T behind = sum_of_lanes<T>(squares);
  x[first] = T(1);
  // What is as small as this beside the largest element, 1, counts as 0: its square has lost
  // digits.
  if (behind <= std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon()) {
    std::fill(x + first + 1, x + length, T(0));
    return {T(0), top};
  }
  const T norm = -std::copysign(std::sqrt(top * top + behind), top);
  const T scale = T(1) / (top - norm);
  for (int64_t i = first + 1; i < length; ++i) x[i] *= scale;
  return {(norm - top) / norm, norm};
}

// The matrix, as the vectors it was made of, becomes the reflections from the left; those from the
// right are kept beside it.
template <class T>
class Reduction {
 public:
  using V = LaneVector<T>;
  static constexpr int64_t kWidth = Wide<T>::kWidth;

  Reduction(VectorList<T>& matrix, Bidiagonal<T>& to)
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

// Column j of a product of reflections, the first ones from the left: reflection k begins at
// element k + offset, so those from j - offset on leave column j as it is.
template <class T>
void form_product(const VectorList<T>& reflections, const std::vector<T>& factors, int64_t offset,
                  const VectorList<T>& out) {
  using V = LaneVector<T>;
  constexpr int64_t kWidth = Wide<T>::kWidth, kColumns = 4;
  const int64_t n = out.count(), length = out.length();
  const int64_t grain = std::max<int64_t>(1, kGrain / (kColumns * n * length));
  parallel_for((n + kColumns - 1) / kColumns, grain, [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      // Where columns are missing, the last one stands for them.
      T* column[kColumns];
      for (int64_t c = 0; c < kColumns; ++c) {
        const int64_t j = std::min(group * kColumns + c, n - 1);
        column[c] = out[j];
        column[c][j] = T(1);
      }
      const int64_t columns = std::min(kColumns, n - group * kColumns);
      for (int64_t k = std::min(group * kColumns + kColumns, n) - 1 - offset; k >= 0; --k) {
        const T factor = factors[static_cast<size_t>(k)];
        if (factor == T(0)) continue;
        const T* const u = reflections[k];
        V sums[kColumns] = {};
        const int64_t first = VectorList<T>::lanes_of(k + offset);
        for (int64_t i = first; i < length; i += kWidth) {
          const V v = lanes_at(u + i);
          for (int64_t c = 0; c < kColumns; ++c) sums[c] += v * lanes_at(column[c] + i);
        }
        T along[kColumns];
        for (int64_t c = 0; c < kColumns; ++c) along[c] = factor * sum_of_lanes<T>(sums[c]);
        for (int64_t i = first; i < length; i += kWidth) {
          const V v = lanes_at(u + i);
          for (int64_t c = 0; c < columns; ++c) {
            const V sum = lanes_at(column[c] + i) - along[c] * v;
            lanes_at(column[c] + i) = sum;
          }
        }
      }
    }
  });
}

// Elements [at, at + vectors) of all vectors take part in the rotations: what one rotation leaves
// for the next stays in registers.
template <class T, int64_t vectors>
void rotate_slice(const VectorList<T>& list, int64_t at, const std::vector<Sweep>& sweeps,
                  const std::vector<Rotation<T>>& rotations) {
  using V = LaneVector<T>;
  constexpr int64_t kWidth = Wide<T>::kWidth;
  for (const Sweep& sweep : sweeps) {
    const Rotation<T>* rotation = rotations.data() + sweep.at;
    T* here = list[sweep.first] + at;
    V carried[vectors];
    for (int64_t v = 0; v < vectors; ++v) carried[v] = lanes_at(here + v * kWidth);
    for (int64_t i = 0; i < sweep.count; ++i, ++rotation) {
      T* const next = list[sweep.first + i + 1] + at;
      const T cosine = rotation->cosine, sine = rotation->sine;
      for (int64_t v = 0; v < vectors; ++v) {
        const V other = lanes_at(next + v * kWidth);
        const V kept = cosine * carried[v] + sine * other;
        carried[v] = cosine * other - sine * carried[v];
        lanes_at(here + v * kWidth) = kept;
      }
      here = next;
    }
    for (int64_t v = 0; v < vectors; ++v) {
      lanes_at(here + v * kWidth) = carried[v];
    }
  }
}

template <class T>
void rotate(const VectorList<T>& left, const VectorList<T>& right, const Sweeps<T>& sweeps) {
  constexpr int64_t kVectors = 4, kSlice = kVectors * Wide<T>::kWidth;
  const auto slices = [](const VectorList<T>& list) {
    return (list.length() + kSlice - 1) / kSlice;
  };
  const int64_t count = slices(left);
  const auto work = static_cast<int64_t>(sweeps.left.size()) * kSlice;
  const int64_t grain = std::max<int64_t>(1, kGrain / work);
  parallel_for(count + slices(right), grain, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const bool is_left = piece < count;
      const VectorList<T>& list = is_left ? left : right;
      const auto& rotations = is_left ? sweeps.left : sweeps.right;
      int64_t at = (is_left ? piece : piece - count) * kSlice;
      if (at + kSlice <= list.length()) {
        rotate_slice<T, kVectors>(list, at, sweeps.list, rotations);
        continue;
      }
      for (; at < list.length(); at += Wide<T>::kWidth) {
        rotate_slice<T, 1>(list, at, sweeps.list, rotations);
      }
    }
  });
}

}  // namespace

template <class T>
bool WideSVD<T>::run() const {
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
  VectorList<T> matrix(rows, columns);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < columns; ++k) {
      matrix[i][k] = a[i * row_step + k * column_step] * half * rest;
    }
  }
  Bidiagonal<T> bidiagonal(rows);
  Reduction<T> reduction(matrix, bidiagonal);
  reduction.run();
  const VectorList<T> left(rows, columns), right(rows, rows);
  form_product(reduction.left, reduction.left_factors, 0, left);
  form_product(reduction.right, reduction.right_factors, 1, right);
  if (!bidiagonal.diagonalize([&](const Sweeps<T>& sweeps) { rotate(left, right, sweeps); })) {
    return false;
  }
  const auto value = [&](int64_t i) { return bidiagonal.d[static_cast<size_t>(i)]; };
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return std::abs(value(i)) > std::abs(value(j)); });
  for (int64_t j = 0; j < rows; ++j) {
    const int64_t i = order[static_cast<size_t>(j)];
    const T sign = value(i) < T(0) ? T(-1) : T(1);
    s[j] = std::ldexp(std::abs(value(i)), exponent);
    for (int64_t k = 0; k < rows; ++k) p[j * rows + k] = sign * right[i][k];
    std::copy_n(left[i], columns, q + j * columns);
  }
  return true;
}

template struct WideSVD<float>;
template struct WideSVD<double>;

}  // namespace hero::core::cpu

#pragma once
// Reflections and rotations of vectors in lanes of one fixed width, so that sums have one order on
// every machine. Only sources of core/cpu/products include this.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/products/bidiagonal.h>
#include <hero/core/cpu/reduce/row_sums.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

// Vectors of one length, padded with zeros to whole lanes.
template <class T>
class VectorList {
 public:
  using V = typename Wide<T>::type;
  static constexpr int64_t kWidth = Wide<T>::kWidth;

  VectorList(int64_t count, int64_t length)
      : count_(count),
        rows_(length),
        own_((length + kWidth - 1) / kWidth * kWidth),
        step_(own_ + kWidth),  // so that vectors do not share the places of a cache
        room_(count * step_) {
    std::fill_n(room_.data(), count * step_, T(0));
  }
  T* operator[](int64_t i) const { return room_.data() + i * step_; }
  int64_t count() const { return count_; }
  int64_t rows() const { return rows_; }  ///< the length, without padding
  int64_t length() const { return own_; }
  int64_t step() const { return step_; }
  // Where the lanes begin that contain element i.
  static int64_t lanes_of(int64_t i) { return i / kWidth * kWidth; }

 private:
  int64_t count_, rows_, own_, step_;
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

/// A power of two near the largest magnitude of some finite numbers. Divided by it they are near 1,
/// and nothing is rounded but what becomes too small to count: squares neither overflow nor vanish.
template <class T>
class PowerOfTwo {
 public:
  explicit PowerOfTwo(T largest) {
    if (std::isfinite(largest)) std::frexp(largest, &exponent_);
    // Of two factors, since one may be out of range.
    half_ = std::ldexp(T(1), -exponent_ / 2);
    rest_ = std::ldexp(T(1), -exponent_ + exponent_ / 2);
    whole_ = std::ldexp(T(1), exponent_ / 2);
    beside_ = std::ldexp(T(1), exponent_ - exponent_ / 2);
  }
  T divided(T x) const { return x * half_ * rest_; }
  T times(T x) const { return x * whole_ * beside_; }
  int exponent() const { return exponent_; }
  [[gnu::noinline]] void divide(const VectorList<T>& list) const {
    for (int64_t i = 0; i < list.count(); ++i) {
      for (int64_t k = 0; k < list.length(); ++k) list[i][k] = divided(list[i][k]);
    }
  }

 private:
  int exponent_ = 0;
  T half_, rest_, whole_, beside_;
};

// A reflection 1 - factor u u^T, whose u has zeros before element `first` and 1 there.
template <class T>
struct Reflection {
  T factor = T(0);
  T length = T(0);  // what element `first` becomes; those behind it become 0
};

// The reflection of x behind element `first`, whose squares have this sum, and of `top` there.
template <class T>
Reflection<T> reflect_behind(T* x, int64_t first, int64_t length, T top, T squares) {
  const T norm = -std::copysign(std::sqrt(top * top + squares), top);
  const T scale = T(1) / (top - norm);
  for (int64_t i = first + 1; i < length; ++i) x[i] *= scale;
  return {(norm - top) / norm, norm};
}

// The same of numbers so small beside the largest element of the matrix, 1, that their squares have
// lost digits: measured by their own largest.
template <class T>
[[gnu::noinline]] Reflection<T> reflect_small(T* x, int64_t first, int64_t length, T top) {
  T largest = T(0);
  for (int64_t i = first + 1; i < length; ++i) largest = std::max(largest, std::abs(x[i]));
  if (largest == T(0)) return {T(0), top};
  const PowerOfTwo<T> unit(std::max(largest, std::abs(top)));
  T squares = T(0);
  for (int64_t i = first + 1; i < length; ++i) {
    x[i] = unit.divided(x[i]);
    squares += x[i] * x[i];
  }
  const Reflection<T> found = reflect_behind(x, first, length, unit.divided(top), squares);
  return {found.factor, unit.times(found.length)};
}

// Turns x into the u of the reflection that leaves nothing behind element `first`.
template <class T>
[[gnu::noinline]] Reflection<T> reflect(T* x, int64_t first, int64_t length) {
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
  if (behind <= std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon()) {
    return reflect_small(x, first, length, top);
  }
  return reflect_behind(x, first, length, top, behind);
}

// x - factor u u^T x, of a u that begins with element `first`.
template <class T>
[[gnu::noinline]] void apply_reflection(const T* u, T factor, int64_t first, int64_t length, T* x) {
  using V = LaneVector<T>;
  constexpr int64_t kWidth = VectorList<T>::kWidth;
  const int64_t begin = VectorList<T>::lanes_of(first);
  V even = {}, odd = {};
  int64_t i = begin;
  for (; i + kWidth < length; i += 2 * kWidth) {
    even += lanes_at(u + i) * lanes_at(x + i);
    odd += lanes_at(u + i + kWidth) * lanes_at(x + i + kWidth);
  }
  if (i < length) even += lanes_at(u + i) * lanes_at(x + i);
  const T along = factor * sum_of_lanes<T>(even + odd);
  for (i = begin; i < length; i += kWidth) {
    const V v = lanes_at(x + i) - along * lanes_at(u + i);
    lanes_at(x + i) = v;
  }
}

// The numbers of some values, the least first; equal ones stay in order. Few steps beside those
// that found the values.
template <class T>
[[gnu::noinline]] std::vector<int64_t> order_of(const std::vector<T>& values) {
  std::vector<int64_t> order(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    size_t to = i;
    for (; to > 0 && values[i] < values[static_cast<size_t>(order[to - 1])]; --to) {
      order[to] = order[to - 1];
    }
    order[to] = static_cast<int64_t>(i);
  }
  return order;
}

// Column j of a product of reflections, the first ones from the left: reflection k begins at
// element k + offset, so those from j - offset on leave column j as it is.
template <class T>
[[gnu::noinline]] void form_product(const VectorList<T>& reflections, const std::vector<T>& factors,
                                    int64_t offset, const VectorList<T>& out) {
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
[[gnu::noinline]] void rotate(const VectorList<T>& left, const VectorList<T>& right,
                              const Sweeps<T>& sweeps) {
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

template <class T>
[[gnu::noinline]] T largest_of(const VectorList<T>& list) {
  using V = LaneVector<T>;
  V largest = {};
  for (int64_t i = 0; i < list.count(); ++i) {
    for (int64_t k = 0; k < list.length(); k += VectorList<T>::kWidth) {
      const V v = lanes_at(list[i] + k);
      largest = v > largest ? v : largest;
      largest = -v > largest ? -v : largest;
    }
  }
  T all = T(0);
  for (int64_t l = 0; l < VectorList<T>::kWidth; ++l) all = std::max<T>(all, largest[l]);
  return all;
}

}  // namespace hero::core::cpu

#pragma once
// Rotations, and the singular values of a bidiagonal matrix by them. Only sources of
// core/cpu/products include this.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace hero::core::cpu {

/// One rotation of neighbouring columns i and i + 1: x' = cosine x + sine y, y' = cosine y - sine
/// x.
template <class T>
struct Rotation {
  T cosine = T(1), sine = T(0);
};

/// The rotation that turns (x, y) into (length, 0).
template <class T>
Rotation<T> rotation(T x, T y, T& length) {
  // Squares of numbers below have lost digits.
  const T low = std::sqrt(std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon());
  if (y == T(0)) {
    length = x;
    return {};
  }
  T unit = std::max(std::abs(x), std::abs(y));
  if (unit < low) {
    x /= unit;
    y /= unit;
  } else {
    unit = T(1);
  }
  const T root = std::sqrt(x * x + y * y);
  length = root * unit;
  return {x / root, y / root};
}

/// Rotations of columns (first, first + 1), (first + 1, first + 2), ..., one after the other.
struct Sweep {
  int64_t first, count;
  int64_t at;  ///< of the first rotation in the lists below
};

/// Sweeps that have yet to be applied to the vectors of both sides.
template <class T>
struct Sweeps {
  std::vector<Sweep> list;
  std::vector<Rotation<T>> left, right;

  void clear() {
    list.clear();
    left.clear();
    right.clear();
  }
};

/// An upper bidiagonal matrix, whose elements are not far above 1, on its way to a diagonal one:
/// sweeps of rotations from the left and the right, with shifts or, where a shift would only lose
/// digits, without. Golub and Kahan, "Calculating the singular values and pseudo-inverse of a
/// matrix" (1965); Demmel and Kahan, "Accurate singular values of bidiagonal matrices" (1990).
template <class T>
class Bidiagonal {
 public:
  explicit Bidiagonal(int64_t n)
      : d(static_cast<size_t>(n)), e(static_cast<size_t>(std::max<int64_t>(n, 1))) {}
  std::vector<T> d, e;  ///< the diagonal; what stands right of it, and a 0

  /// Makes e zero; apply() is called with some sweeps at a time. False if too many sweeps are
  /// needed.
  template <class Apply>
  bool diagonalize(Apply&& apply) {
    constexpr size_t kRotations = 1 << 14;  // that wait, at most
    int64_t last = size() - 1;
    T norm = T(0);
    for (size_t i = 0; i < d.size(); ++i) norm = std::max({norm, std::abs(d[i]), std::abs(e[i])});
    const T negligible = std::numeric_limits<T>::epsilon() * norm;
    Sweeps<T> sweeps;
    for (int64_t left = 100 * size(); last > 0; --left) {
      if (std::abs(e[at(last - 1)]) <= negligible) {
        --last;
        e[at(last)] = T(0);
        continue;
      }
      if (left == 0) return false;
      int64_t first = last - 1;
      while (first > 0 && std::abs(e[at(first - 1)]) > negligible) --first;
      if (first > 0) e[at(first - 1)] = T(0);
      sweeps.list.push_back({first, last - first, static_cast<int64_t>(sweeps.left.size())});
      const T shift = shift_of(first, last, negligible);
      shift == T(0) ? sweep_without_shift(first, last, sweeps) : sweep(first, last, shift, sweeps);
      if (sweeps.left.size() < kRotations) continue;
      apply(sweeps);
      sweeps.clear();
    }
    if (!sweeps.list.empty()) apply(sweeps);
    return true;
  }

 private:
  int64_t size() const { return static_cast<int64_t>(d.size()); }
  static size_t at(int64_t i) { return static_cast<size_t>(i); }

  // The smaller singular value of the last two rows and columns; 0 where it is too small to count,
  // and where an element of the diagonal is: behind a 0 a sweep with a shift would change nothing,
  // and one without makes the last element 0 at once.
  T shift_of(int64_t first, int64_t last, T negligible) const {
    for (int64_t i = first; i <= last; ++i) {
      if (std::abs(d[at(i)]) <= negligible) return T(0);
    }
    const T f = d[at(last - 1)], g = e[at(last - 1)], h = d[at(last)];
    const T large =
        (std::sqrt((f + h) * (f + h) + g * g) + std::sqrt((f - h) * (f - h) + g * g)) / 2;
    const T top = std::abs(d[at(first)]);
    if (large == T(0) || top == T(0)) return T(0);
    const T shift = std::abs(f) * (std::abs(h) / large), ratio = shift / top;
    return ratio * ratio < std::numeric_limits<T>::epsilon() ? T(0) : shift;
  }

  void sweep(int64_t first, int64_t last, T shift, Sweeps<T>& sweeps) {
    const T top = d[at(first)];
    T x = (std::abs(top) - shift) * (std::copysign(T(1), top) + shift / top), y = e[at(first)];
    T length;
    for (int64_t i = first; i < last; ++i) {
      T &here = d[at(i)], &next = d[at(i + 1)], &beside = e[at(i)];
      const Rotation<T> right = rotation(x, y, length);
      if (i > first) e[at(i - 1)] = length;
      x = right.cosine * here + right.sine * beside;
      beside = right.cosine * beside - right.sine * here;
      y = right.sine * next;
      next *= right.cosine;
      const Rotation<T> left = rotation(x, y, here);
      x = left.cosine * beside + left.sine * next;
      next = left.cosine * next - left.sine * beside;
      if (i + 1 < last) {
        y = left.sine * e[at(i + 1)];
        e[at(i + 1)] *= left.cosine;
      }
      sweeps.right.push_back(right);
      sweeps.left.push_back(left);
    }
    e[at(last - 1)] = x;
  }

  void sweep_without_shift(int64_t first, int64_t last, Sweeps<T>& sweeps) {
    Rotation<T> right, left;
    T length;
    for (int64_t i = first; i < last; ++i) {
      right = rotation(d[at(i)] * right.cosine, e[at(i)], length);
      if (i > first) e[at(i - 1)] = left.sine * length;
      left = rotation(left.cosine * length, d[at(i + 1)] * right.sine, d[at(i)]);
      sweeps.right.push_back(right);
      sweeps.left.push_back(left);
    }
    const T rest = d[at(last)] * right.cosine;
    d[at(last)] = rest * left.cosine;
    e[at(last - 1)] = rest * left.sine;
  }
};

}  // namespace hero::core::cpu

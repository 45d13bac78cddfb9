#pragma once
// The eigenvalues of a symmetric tridiagonal matrix, by rotations. Only
// core/cpu/products/symmetric.cpp includes this.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <hero/core/cpu/products/bidiagonal.h>

namespace hero::core::cpu {

/// A symmetric tridiagonal matrix, whose elements are not far above 1, on its way to a diagonal
/// one: sweeps of rotations from both sides, with Wilkinson's shift. See Golub and Van Loan,
/// "Matrix Computations", 8.3.
template <class T>
class Tridiagonal {
 public:
  explicit Tridiagonal(int64_t n) : d(static_cast<size_t>(n)), e(static_cast<size_t>(n)) {}
  std::vector<T> d, e;  ///< the diagonal; what stands right of it and below it, and a 0

  /// Makes e zero; apply() is called with some sweeps at a time, whose rotations are the left ones.
  /// False if too many sweeps are needed.
  template <class Apply>
  bool diagonalize(Apply&& apply) {
    constexpr size_t kRotations = 1 << 14;  // that wait, at most
    constexpr int64_t kPatience = 30;       // sweeps for one eigenvalue; two or three do
    int64_t last = static_cast<int64_t>(d.size()) - 1, sweeps_of_last = 0;
    T norm = T(0);
    for (size_t i = 0; i < d.size(); ++i) norm = std::max({norm, std::abs(d[i]), std::abs(e[i])});
    Sweeps<T> sweeps;
    for (int64_t left = 100 * last; last > 0; --left) {
      // Where large elements behind small ones keep these from settling, what is as small as their
      // roundings counts as 0.
      least_ = std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();
      if (sweeps_of_last > kPatience) least_ = std::numeric_limits<T>::epsilon() * norm;
      if (is_negligible(last - 1)) {
        --last;
        sweeps_of_last = 0;
        continue;
      }
      if (left == 0) return false;
      ++sweeps_of_last;
      int64_t first = last - 1;
      while (first > 0 && !is_negligible(first - 1)) --first;
      sweeps.list.push_back({first, last - first, static_cast<int64_t>(sweeps.left.size())});
      sweep(first, last, sweeps.left);
      if (sweeps.left.size() < kRotations) continue;
      apply(sweeps);
      sweeps.clear();
    }
    if (!sweeps.list.empty()) apply(sweeps);
    return true;
  }

 private:
  T least_ = T(0);  // what counts as 0 beside elements of any size
  static size_t at(int64_t i) { return static_cast<size_t>(i); }

  bool is_negligible(int64_t i) const {
    constexpr T epsilon = std::numeric_limits<T>::epsilon();
    const T beside = std::abs(d[at(i)]) + std::abs(d[at(i + 1)]);
    return std::abs(e[at(i)]) <= std::max(epsilon * beside, least_);
  }

  // Of the eigenvalues of the last two rows and columns the one that is nearer to the last element.
  T shift_of(int64_t last) const {
    const T beside = e[at(last - 1)], low = d[at(last)], half = (d[at(last - 1)] - low) / 2;
    T root;
    rotation(half, beside, root);
    return low - beside / ((half + std::copysign(root, half)) / beside);
  }

  void sweep(int64_t first, int64_t last, std::vector<Rotation<T>>& rotations) {
    T x = d[at(first)] - shift_of(last), y = e[at(first)], length;
    for (int64_t i = first; i < last; ++i) {
      T &here = d[at(i)], &next = d[at(i + 1)], &beside = e[at(i)];
      const auto [c, s] = rotation(x, y, length);
      if (i > first) e[at(i - 1)] = length;
      const T above = c * here + s * beside, right = c * beside + s * next;
      const T left = c * beside - s * here, below = c * next - s * beside;
      here = c * above + s * right;
      beside = c * right - s * above;
      next = c * below - s * left;
      x = beside;
      if (i + 1 < last) {
        y = s * e[at(i + 1)];
        e[at(i + 1)] *= c;
      }
      rotations.push_back({c, s});
    }
  }
};

}  // namespace hero::core::cpu

#pragma once
// Largest elements and sums of rows in one fixed order, for the kernels that take a row at a time.
#include <algorithm>
#include <cstring>

#include <hero/core/cpu/block_io.h>
#include <hero/core/kernels/math.h>

namespace hero::core::cpu {

// Running values are kept in two vectors of 64 bytes: a fixed number of lanes, which machines with
// narrower registers split, so that the order of operations is the same everywhere.
template <class T>
struct Wide {
  typedef T type __attribute__((vector_size(64)));
  static constexpr int64_t kWidth = 64 / sizeof(T);
  static void load(const T* from, type& to) { std::memcpy(&to, from, sizeof(to)); }
};

// Vectors of 32 bytes: the compiler makes no comparisons of wider ones for AVX2.
template <class T>
T row_max(const T* x, int64_t n) {
  typedef T V __attribute__((vector_size(32)));
  constexpr int64_t kWidth = 32 / sizeof(T), kStep = 4 * kWidth;
  const auto load = [](const T* from, V& to) { std::memcpy(&to, from, sizeof to); };
  T top = x[0];
  int64_t i = 0;
  if (n >= kStep) {
    V a, b, c, d, next;
    load(x, a);
    load(x + kWidth, b);
    load(x + 2 * kWidth, c);
    load(x + 3 * kWidth, d);
    for (i = kStep; i + kStep <= n; i += kStep) {
      load(x + i, next);
      a = next > a ? next : a;
      load(x + i + kWidth, next);
      b = next > b ? next : b;
      load(x + i + 2 * kWidth, next);
      c = next > c ? next : c;
      load(x + i + 3 * kWidth, next);
      d = next > d ? next : d;
    }
    a = b > a ? b : a;
    c = d > c ? d : c;
    a = c > a ? c : a;
    for (int64_t j = 0; j < kWidth; ++j) top = a[j] > top ? a[j] : top;
  }
  // A NaN may get lost here; the sum of exponentials finds it.
  for (; i < n; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

// The sum of at most kBlock elements: lanes, joined pairwise.
template <class T>
T block_sum(const T* x, int64_t n) {
  using W = Wide<T>;
  constexpr int64_t kStep = 2 * W::kWidth;
  T sum = T(0);
  int64_t i = 0;
  if (n >= kStep) {
    typename W::type a, b, next;
    W::load(x, a);
    W::load(x + W::kWidth, b);
    for (i = kStep; i + kStep <= n; i += kStep) {
      W::load(x + i, next);
      a += next;
      W::load(x + i + W::kWidth, next);
      b += next;
    }
    a += b;
    T lane[W::kWidth];
    std::memcpy(lane, &a, sizeof(a));
    for (int64_t width = W::kWidth / 2; width > 0; width /= 2) {
      for (int64_t j = 0; j < width; ++j) lane[j] += lane[j + width];
    }
    sum = lane[0];
  }
  for (; i < n; ++i) sum += x[i];
  return sum;
}

// Joins the sums of blocks as a balanced tree while they come in: the error grows with the
// logarithm of the row's length.
template <class T>
class TreeSum {
 public:
  void add(T value) {
    int level = 0;
    for (uint64_t rest = count_++; rest & 1; rest >>= 1) value = levels_[level++] + value;
    levels_[level] = value;
  }
  T total() const {
    T value = T(0);
    int level = 0;
    for (uint64_t rest = count_; rest != 0; rest >>= 1, ++level) {
      if (rest & 1) value = levels_[level] + value;
    }
    return value;
  }

 private:
  T levels_[64];
  uint64_t count_ = 0;
};

// Calls body(at, count) for each block of a row and returns the sum of what it returns.
template <class T, class Body>
T sum_blocks(int64_t n, Body&& body) {
  if (n <= kBlock) return body(int64_t{0}, n);
  TreeSum<T> sum;
  for (int64_t at = 0; at < n; at += kBlock) sum.add(body(at, std::min(kBlock, n - at)));
  return sum.total();
}

// e^x for x <= 0, NaN or, where a row is all -inf, NaN. Below e^-87 it is 0: a term that small
// would add nothing to a sum that is at least 1, and a denormal result would cost more than it
// says.
[[gnu::always_inline]] inline float exp_term(float x) {
  const float power = math::detail::exp_in_range(-math::detail::magnitude_below(x, 87.0f));
  const float kept = x < -87.0f ? 0.0f : power;
  return x != x ? x : kept;
}
[[gnu::always_inline]] inline double exp_term(double x) { return math::exp(x); }

// The sum of f(i) for i in [0, n).
template <class T, class F>
[[gnu::always_inline]] inline T sum_of(int64_t n, F&& f) {
  return sum_blocks<T>(
      n, [&](int64_t at, int64_t count) __attribute__((always_inline)) {
        T terms[kBlock];
        std::fill_n(terms, std::min<int64_t>(count, 1), T(0));  // the compiler counts on count > 0
#pragma GCC ivdep
        for (int64_t i = 0; i < count; ++i) terms[i] = f(at + i);
        return block_sum(terms, count);
      });
}

}  // namespace hero::core::cpu

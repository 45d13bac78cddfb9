#pragma once
// The tree in which reductions combine elements, which is NumPy's pairwise summation: halves down
// to 128 elements, and eight running values in a leaf.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include <hero/core/kernels/wrapping.h>

namespace hero::core::cpu {

inline constexpr int64_t kLeaf = 128;  // elements joined in lanes
inline constexpr int64_t kLanes = 8;   // running values in a leaf

// The terms of a reduction that combines the elements themselves.
struct Elements {
  static constexpr bool kCentered = false;
  template <class T, class C>
  [[gnu::always_inline]] static void prepare(T&, const C&) {}
};

// How a value takes another one: T is an element or a vector of them. Selections without branches.
struct Add : Elements {
  using OfNumbers = Add;
  template <class T>
  [[gnu::always_inline]] static void join(T& to, const T& x) {
    if constexpr (std::is_integral_v<T>) {
      to = wrapping_add(to, x);
    } else {
      to += x;
    }
  }
};
struct Multiply : Elements {
  using OfNumbers = Multiply;
  template <class T>
  [[gnu::always_inline]] static void join(T& to, const T& x) {
    if constexpr (std::is_integral_v<T>) {
      to = wrapping_mul(to, x);
    } else {
      to *= x;
    }
  }
};
struct AddSquares : Add {
  using OfNumbers = AddSquares;
  template <class T, class C>
  [[gnu::always_inline]] static void prepare(T& x, const C&) {
    x *= x;
  }
};
struct AddSquaredDeviations : Add {
  using OfNumbers = AddSquaredDeviations;
  static constexpr bool kCentered = true;
  template <class T, class C>
  [[gnu::always_inline]] static void prepare(T& x, const C& center) {
    x -= center;
    x *= x;
  }
};
// A NaN stays; of equal values, as zeros of both signs are, the last one does.
struct Larger : Elements {
  struct OfNumbers {
    template <class T>
    [[gnu::always_inline]] static void join(T& to, const T& x) {
      to = to > x ? to : x;
    }
  };
  template <class T>
  [[gnu::always_inline]] static void join(T& to, const T& x) {
    const T more = to > x ? to : x;
    to = to != to ? to : more;
  }
};
struct Smaller : Elements {
  struct OfNumbers {
    template <class T>
    [[gnu::always_inline]] static void join(T& to, const T& x) {
      to = to < x ? to : x;
    }
  };
  template <class T>
  [[gnu::always_inline]] static void join(T& to, const T& x) {
    const T less = to < x ? to : x;
    to = to != to ? to : less;
  }
};

// The length of a node's left part: half, in whole rounds of lanes.
inline int64_t left_part(int64_t n) {
  const int64_t half = n / 2;
  return half - half % kLanes;
}

// Eight floats, or half of eight doubles.
template <class T>
struct Lanes {
  typedef T type __attribute__((vector_size(32)));
};

// Joins neighbours, then neighbouring pairs, and so on: the first lane takes all of them.
template <class Op>
[[gnu::always_inline]] inline float join_lanes(Lanes<float>::type (&x)[1]) {
  using V = Lanes<float>::type;
  Op::join(x[0], V(__builtin_shufflevector(x[0], x[0], 1, 0, 3, 2, 5, 4, 7, 6)));
  Op::join(x[0], V(__builtin_shufflevector(x[0], x[0], 2, 3, 0, 1, 6, 7, 4, 5)));
  Op::join(x[0], V(__builtin_shufflevector(x[0], x[0], 4, 5, 6, 7, 0, 1, 2, 3)));
  return x[0][0];
}
template <class Op>
[[gnu::always_inline]] inline double join_lanes(Lanes<double>::type (&x)[2]) {
  using V = Lanes<double>::type;
  for (V& half : x) {
    Op::join(half, V(__builtin_shufflevector(half, half, 1, 0, 3, 2)));
    Op::join(half, V(__builtin_shufflevector(half, half, 2, 3, 0, 1)));
  }
  Op::join(x[0], x[1]);
  return x[0][0];
}

// n >= kLanes elements of a leaf. The compiler makes no vectors of lanes whose joining it sees as a
// choice. A choice is made as if there were no NaN, so that no step waits for more than one
// comparison; the sum tells whether there was one, or infinities of both signs.
template <class Op, bool kNumbers, class T>
[[gnu::always_inline]] inline T reduce_lanes(const T* x, int64_t n, T center) {
  using V = typename Lanes<T>::type;
  using Join = std::conditional_t<kNumbers, typename Op::OfNumbers, Op>;
  constexpr bool kChecks = kNumbers && !std::is_same_v<typename Op::OfNumbers, Op>;
  constexpr int64_t kVectors = kLanes * sizeof(T) / sizeof(V);
  V lanes[kVectors], sums[kVectors], next[kVectors];
  std::memcpy(lanes, x, sizeof lanes);
  for (V& lane : lanes) Op::prepare(lane, center);
  std::memcpy(sums, lanes, sizeof sums);
  int64_t i = kLanes;
#pragma GCC unroll 1
  for (; i + kLanes <= n; i += kLanes) {
    std::memcpy(next, x + i, sizeof next);
    for (int64_t v = 0; v < kVectors; ++v) {
      Op::prepare(next[v], center);
      Join::join(lanes[v], next[v]);
      if (kChecks) sums[v] += next[v];
    }
  }
  T value = join_lanes<Join>(lanes), sum = kChecks ? join_lanes<Add>(sums) : T(0);
#pragma GCC unroll 1
  for (; i < n; ++i) {
    T last = x[i];
    Op::prepare(last, center);
    Join::join(value, last);
    if (kChecks) sum += last;
  }
  if constexpr (kChecks) {
    if (!(sum == sum)) return reduce_lanes<Op, false>(x, n, center);
  }
  return value;
}

// Prefetches what is 16 KB after some bytes: the processor itself prefetches only within a page.
inline void fetch_ahead(const std::byte* x, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) {
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(x + i) + 16384));
  }
}

// The largest or smallest of n elements in any order, where that makes no difference: false where
// it is a zero, whose sign may depend on it, and where there may be a NaN. Vectors have names,
// since the compiler keeps no array of them in registers.
template <class Op, class T>
[[gnu::noinline]] bool choose(const T* x, int64_t n, T& value) {
  using V = typename Lanes<T>::type;
  using Numbers = typename Op::OfNumbers;
  constexpr int64_t kWidth = sizeof(V) / sizeof(T), kStep = 4 * kWidth;
  if (n < kStep) return false;
  V a, b, c, d, next;
  const auto load = [](const T* from, V& to) { std::memcpy(&to, from, sizeof to); };
  load(x, a);
  load(x + kWidth, b);
  load(x + 2 * kWidth, c);
  load(x + 3 * kWidth, d);
  V sum = a + b, other = c + d;
  const auto take = [&](const T* from, V& best, V& total) __attribute__((always_inline)) {
    load(from, next);
    Numbers::join(best, next);
    total += next;
  };
  int64_t i = kStep;
  for (; i + kStep <= n; i += kStep) {
    fetch_ahead(reinterpret_cast<const std::byte*>(x + i), 4 * sizeof(V));
    take(x + i, a, sum);
    take(x + i + kWidth, b, other);
    take(x + i + 2 * kWidth, c, sum);
    take(x + i + 3 * kWidth, d, other);
  }
  Numbers::join(a, b);
  Numbers::join(c, d);
  Numbers::join(a, c);
  sum += other;
  value = a[0];
  T total = sum[0];
  for (int64_t j = 1; j < kWidth; ++j) {
    const T lane = a[j];
    Numbers::join(value, lane);
    total += sum[j];
  }
  for (; i < n; ++i) {
    Numbers::join(value, x[i]);
    total += x[i];
  }
  return value != T(0) && total == total;
}

// n >= 1 elements in memory, integers in any order.
template <class Op, class T>
[[gnu::noinline]] T reduce_tree(const T* x, int64_t n, T center) {
  T value = x[0];
  if constexpr (std::is_integral_v<T>) {
    for (int64_t i = 1; i < n; ++i) Op::join(value, x[i]);
    return value;
  } else {
    if (n > kLeaf) {
      const int64_t left = left_part(n);
      value = reduce_tree<Op>(x, left, center);
      Op::join(value, reduce_tree<Op>(x + left, n - left, center));
      return value;
    }
    if (n >= kLanes) return reduce_lanes<Op, true>(x, n, center);
    Op::prepare(value, center);
#pragma GCC unroll 1
    for (int64_t i = 1; i < n; ++i) {
      T next = x[i];
      Op::prepare(next, center);
      Op::join(value, next);
    }
    return value;
  }
}

// Nodes of a tree of n rows with at most `most` rows each: first row and number of rows.
inline void split_rows(int64_t first, int64_t n, int64_t most,
                       std::vector<std::pair<int64_t, int64_t>>& nodes) {
  if (n <= most) {
    nodes.emplace_back(first, n);
    return;
  }
  const int64_t left = left_part(n);
  split_rows(first, left, most, nodes);
  split_rows(first + left, n - left, most, nodes);
}

// Combines n values with n others.
template <class T>
using JoinFn = void (*)(T* to, const T* x, int64_t n);

template <class Op, class T>
void join_neighbours(T* to, const T* x, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) Op::join(to[i], x[i]);
}

// Joins the values of such nodes, `width` each, into those of the first.
template <class T>
T* join_rows(int64_t n, int64_t most, int64_t width, T*& next, JoinFn<T> join) {
  if (n <= most) return std::exchange(next, next + width);
  const int64_t left = left_part(n);
  T* into = join_rows(left, most, width, next, join);
  join(into, join_rows(n - left, most, width, next, join), width);
  return into;
}

}  // namespace hero::core::cpu

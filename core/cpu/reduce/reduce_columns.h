#pragma once
// Reductions to elements that are neighbours in memory: many columns side by side, in the same tree
// as a row's, so that a sum does not depend on the layout.
#include <algorithm>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/reduce/terms.h>
#include <hero/core/cpu/reduce/tree.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

// Columns side by side: rows are read in long pieces, and the lanes (64 KB of float) stay in the
// second-level cache.
inline constexpr int64_t kColumns = 2048;

// The addresses of rows.
class RowStarts {
 public:
  explicit RowStarts(const Array& starts) : walk_(starts, starts.shape()) {
    const int last = starts.ndim() - 1;
    step_ = last < 0 ? 0 : starts.strides()[last];
    for (int i = 0; i < last; ++i) {
      if (starts.strides()[i] != starts.strides()[i + 1] * starts.shape()[i + 1]) even_ = false;
    }
  }
  // Where the columns from `column` on begin in n rows.
  void find(int64_t row, int64_t n, int64_t column, int64_t* to) const {
    if (even_) {
      for (int64_t i = 0; i < n; ++i) to[i] = (row + i) * step_ + column;
      return;
    }
    walk_.runs(row, n, [&](int64_t element, int64_t stride, int64_t run, int64_t done) {
      for (int64_t i = 0; i < run; ++i) to[done + i] = element + i * stride + column;
    });
  }

 private:
  BroadcastWalk walk_;
  int64_t step_;
  bool even_ = true;
};

// Whether n rows of `width` columns are contiguous.
inline bool are_dense(const int64_t* starts, int64_t n, int64_t width) {
  bool dense = true;
  for (int64_t i = 1; i < n; ++i) dense &= starts[i] - starts[i - 1] == width;
  return dense;
}

// What a reduction does to neighbours in memory: columns of elements E. How rows are walked does
// not depend on it, so that is compiled once for a type and not for every reduction.
template <class T, class E>
struct ColumnKernels {
  // Takes n columns of one or four rows; `first`: into what is nothing yet.
  void (*take)(const E* const* x, int rows, const T* center, int64_t n, bool first, T* into);
  void (*join_lanes)(const T* lanes, int64_t n, T* out);
  JoinFn<T> join;
};

template <class Op, bool kFirst, int kRows, class T, class E>
[[gnu::noinline]] void take_columns(const E* const* rows, const T* center, int64_t n, T* into) {
  const E* x[kRows];
  std::copy_n(rows, kRows, x);
#pragma GCC ivdep
  for (int64_t c = 0; c < n; ++c) {
    const auto term = [&](int k) __attribute__((always_inline)) {
      T next = T(x[k][c]);
      Op::prepare(next, Op::kCentered ? center[c] : T(0));
      return next;
    };
    T value = kFirst ? term(0) : into[c];
#pragma GCC unroll 4
    for (int k = kFirst ? 1 : 0; k < kRows; ++k) Op::join(value, term(k));
    into[c] = value;
  }
}
template <class Op, class T, class E>
void take_rows(const E* const* x, int rows, const T* center, int64_t n, bool first, T* into) {
  if (rows == 4) {
    first ? take_columns<Op, true, 4>(x, center, n, into)
          : take_columns<Op, false, 4>(x, center, n, into);
  } else {
    first ? take_columns<Op, true, 1>(x, center, n, into)
          : take_columns<Op, false, 1>(x, center, n, into);
  }
}
template <class Op, class T>
void join_lanes_of_columns(const T* x, int64_t n, T* out) {
  const auto join = [](T a, T b) __attribute__((always_inline)) {
    Op::join(a, b);
    return a;
  };
#pragma GCC ivdep
  for (int64_t c = 0; c < n; ++c) {
    const T* at = x + c;
    out[c] = join(join(join(at[0], at[n]), join(at[2 * n], at[3 * n])),
                  join(join(at[4 * n], at[5 * n]), join(at[6 * n], at[7 * n])));
  }
}
template <class Op, class T, class E>
inline constexpr ColumnKernels<T, E> kColumnKernels = {
    take_rows<Op, T, E>, join_lanes_of_columns<Op, T>, join_neighbours<Op, T>};

// Reduces pieces of up to `width` columns of rows, whose first elements `rows` walks: elements E
// where `memory` is not null, else the terms.
template <class T, class E>
class Columns {
 public:
  Columns(const ColumnKernels<T, E>& kernels, const Terms<T>& terms, const E* memory,
          const RowStarts& rows, int64_t width, int64_t n)
      : kernels_(kernels),
        terms_(terms),
        memory_(memory),
        rows_(rows),
        lanes_(static_cast<size_t>(kLanes * width)),
        centers_(kLanes * width <= kBlock ? lanes_.size() : 0) {
    int64_t levels = 0;
    for (; n > kLeaf; n -= left_part(n)) ++levels;
    right_.resize(static_cast<size_t>(levels * width));
  }
  // n rows from `row` on; of each the columns from `column` on, `width` into out.
  void run(int64_t row, int64_t n, int64_t column, int64_t width, const T* center, T* out) {
    column_ = column;
    width_ = width;
    center_ = center;
    for (int64_t i = 0; i < kLanes && center && !centers_.empty(); ++i) {
      std::copy_n(center, width, centers_.data() + i * width);
    }
    tree(row, n, out, right_.data());
  }

 private:
  [[gnu::noinline]] void tree(int64_t row, int64_t n, T* out, T* right) {
    if (n <= kLeaf) return leaf(row, n, out);
    const int64_t left = left_part(n);
    tree(row, left, out, right + width_);
    tree(row + left, n - left, right, right + width_);
    kernels_.join(out, right, width_);
  }
  // Four rounds at a time: running values are written once for four rows, the first four without
  // having been there, and rows are read nearly in the order of memory. Where the rows of a round
  // are short and lie one behind the other, they are taken as one.
  void leaf(int64_t row, int64_t n, T* out) {
    rows_.find(row, n, column_, starts_);
    const int64_t rounds = n / kLanes, fours = rounds - rounds % 4;
    const bool together = kLanes * width_ <= kBlock && are_dense(starts_, n, width_);
    const int64_t step = together ? kLanes : 1;
    const T* centers = together && center_ ? centers_.data() : center_;
    for (int64_t i = 0; i < fours * kLanes; i += 4 * kLanes) {
      for (int64_t j = 0; j < kLanes; j += step) {
        take(i + j, 4, step * width_, centers, i == 0, lane(j));
      }
    }
    for (int64_t i = fours * kLanes; i < rounds * kLanes; i += step) {
      take(i, 1, step * width_, centers, i < kLanes, lane(i % kLanes));
    }
    if (rounds > 0) kernels_.join_lanes(lanes_.data(), width_, out);
    for (int64_t i = rounds * kLanes; i < n; ++i) take(i, 1, width_, center_, i == 0, out);
  }
  // n columns of rows i, i + 8, .. of the leaf one after the other.
  void take(int64_t i, int rows, int64_t n, const T* center, bool first, T* into) {
    const int64_t step = memory_ ? n : kBlock;
    for (int64_t c = 0; c < n; c += step) {
      const int64_t some = std::min(step, n - c);
      const T* center_of = center ? center + c : nullptr;
      const E* x[4];
      for (int k = 0; k < rows; ++k) {
        const int64_t element = starts_[i + k * kLanes] + c;
        if constexpr (std::is_same_v<E, T>) {
          x[k] = memory_ ? memory_ + element : terms_.read_run(element, some, center_of, room_[k]);
        } else {
          x[k] = memory_ + element;
        }
      }
      kernels_.take(x, rows, center_of, some, first, into + c);
    }
  }
  T* lane(int64_t i) { return lanes_.data() + i * width_; }

  const ColumnKernels<T, E>& kernels_;
  const Terms<T>& terms_;
  const E* memory_;
  const RowStarts& rows_;
  int64_t column_ = 0, width_ = 0;
  const T* center_ = nullptr;
  std::vector<T> lanes_, right_, centers_;
  int64_t starts_[kLeaf];
  alignas(64) T room_[4][kBlock];
};

// n rows of `inner` columns each are reduced into results, `outer` times; `center` is of the shape
// [outer, inner] of these or null. Threads share pieces of columns and, where these are few, nodes
// of the tree.
template <class T, class E>
[[gnu::noinline]] void reduce_columns(const ColumnKernels<T, E>& kernels, const Terms<T>& terms,
                                      const E* memory, const RowStarts& rows, int64_t outer,
                                      int64_t n, int64_t inner, const T* center, T* results) {
  const int64_t width = std::min(inner, kColumns);
  const int64_t pieces = (inner + width - 1) / width;
  constexpr int64_t kTasks = 16;  // enough to share; a fixed number, as bits must not ask threads
  const int64_t most = outer * pieces >= kTasks ? n : std::max({kLeaf, n / kTasks, kGrain / width});
  std::vector<std::pair<int64_t, int64_t>> nodes;
  split_rows(0, n, most, nodes);
  const auto node_count = static_cast<int64_t>(nodes.size());
  const bool whole = node_count == 1;
  std::vector<T> parts(whole ? 0 : static_cast<size_t>(outer * pieces * node_count * width));
  const int64_t work = nodes[0].second * width;
  parallel_for(outer * pieces * node_count, std::max<int64_t>(1, kGrain / work),
               [&](int64_t begin, int64_t end) {
                 Columns<T, E> columns(kernels, terms, memory, rows, width, n);
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t piece = whole ? task : task / node_count;
                   const int64_t o = pieces == 1 ? piece : piece / pieces;
                   const auto [first, count] =
                       nodes[static_cast<size_t>(task - piece * node_count)];
                   const int64_t c = (piece - o * pieces) * width, at = o * inner + c;
                   columns.run(o * n + first, count, c, std::min(width, inner - c),
                               center ? center + at : nullptr,
                               whole ? results + at : parts.data() + task * width);
                 }
               });
  if (whole) return;
  for (int64_t piece = 0; piece < outer * pieces; ++piece) {
    T* next = parts.data() + piece * node_count * width;
    const T* sums = join_rows(n, most, width, next, kernels.join);
    const int64_t c = piece % pieces * width;
    std::copy_n(sums, std::min(width, inner - c), results + piece / pieces * inner + c);
  }
}

}  // namespace hero::core::cpu

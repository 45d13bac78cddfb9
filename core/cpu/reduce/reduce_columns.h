#pragma once
// Reductions over dimensions before the last: many columns side by side, in the same tree as a
// row's, so that a sum does not depend on the layout.
#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include <hero/core/cpu/block_io.h>
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

inline constexpr int64_t kLeaf = 128;  // elements summed in lanes
inline constexpr int64_t kLanes = 8;   // running values in a leaf
// Columns side by side where the input is read in place: rows are read in long pieces, and the
// lanes (64 KB of float) stay in the second-level cache.
inline constexpr int64_t kColumns = 2048;

// The length of a node's left part: half, in whole rounds of lanes.
inline int64_t left_part(int64_t n) {
  const int64_t half = n / 2;
  return half - half % kLanes;
}

template <class Op, class T>
T join_lanes(const T* lane) {
  return Op::combine(Op::combine(Op::combine(lane[0], lane[1]), Op::combine(lane[2], lane[3])),
                     Op::combine(Op::combine(lane[4], lane[5]), Op::combine(lane[6], lane[7])));
}

// Reduces pieces of up to `width` columns of n rows that lie `stride` elements apart: elements E in
// memory where `memory` is not null, else T, which the reader makes of them.
template <class Op, class T, class E>
class Columns {
 public:
  Columns(const BlockReader& reader, const E* memory, int64_t stride, int64_t width, int64_t n)
      : reader_(reader),
        memory_(memory),
        stride_(stride),
        lanes_(static_cast<size_t>(kLanes * width)) {
    int64_t levels = 0;
    for (; n > kLeaf; n -= left_part(n)) ++levels;
    right_.resize(static_cast<size_t>(levels * width));
  }
  // Rows begin, begin + stride, ...: `width` columns into out.
  void run(int64_t begin, int64_t n, int64_t width, const T* center, T* out) {
    width_ = width;
    center_ = center;
    tree(begin, n, out, right_.data());
  }

 private:
  void tree(int64_t begin, int64_t n, T* out, T* right) {
    if (n <= kLeaf) return leaf(begin, n, out);
    const int64_t left = left_part(n);
    tree(begin, left, out, right + width_);
    tree(begin + left * stride_, n - left, right, right + width_);
    for (int64_t c = 0; c < width_; ++c) out[c] = Op::combine(out[c], right[c]);
  }
  // Four rounds at a time: running values are written once for four rows, the first four without
  // having been there, and rows are read nearly in the order of memory.
  void leaf(int64_t begin, int64_t n, T* out) {
    const int64_t rounds = n / kLanes;
    int64_t round = 0;
    for (; memory_ != nullptr && round + 4 <= rounds; round += 4) {
      for (int64_t j = 0; j < kLanes; ++j) {
        const auto* const x = row(begin, round * kLanes + j);
        T* const sum = lane(j);
        if (round == 0) {
          four_rows(
              x, kLanes * stride_, [](int64_t, T value) { return value; }, sum);
        } else {
          four_rows(
              x, kLanes * stride_, [=](int64_t c, T value) { return Op::combine(sum[c], value); },
              sum);
        }
      }
    }
    for (; round < rounds; ++round) {
      for (int64_t j = 0; j < kLanes; ++j) {
        const auto* const x = row(begin, round * kLanes + j);
        if (round == 0) {
          start(lane(j), x);
        } else {
          add(lane(j), x);
        }
      }
    }
    if (rounds > 0) {
      for (int64_t c = 0; c < width_; ++c) {
        const T column[kLanes] = {lane(0)[c], lane(1)[c], lane(2)[c], lane(3)[c],
                                  lane(4)[c], lane(5)[c], lane(6)[c], lane(7)[c]};
        out[c] = join_lanes<Op>(column);
      }
    } else {
      start(out, row(begin, 0));
    }
    for (int64_t i = std::max<int64_t>(1, rounds * kLanes); i < n; ++i) add(out, row(begin, i));
  }
  const E* row(int64_t begin, int64_t i) {
    if (memory_ != nullptr || !std::is_same_v<E, T>) return memory_ + begin + i * stride_;
    return reinterpret_cast<const E*>(reader_.read(begin + i * stride_, width_, scratch_.bytes));
  }
  void start(T* into, const E* x) const {
    const T* center = center_;
    for (int64_t c = 0; c < width_; ++c) into[c] = Op::pre(T(x[c]), center[c]);
  }
  void add(T* into, const E* x) const {
    const T* center = center_;
#pragma GCC ivdep
    for (int64_t c = 0; c < width_; ++c) {
      into[c] = Op::combine(into[c], Op::pre(T(x[c]), center[c]));
    }
  }
  // Four rows that lie `step` elements apart, one after the other; begin(c, value) takes column c
  // of the first.
  template <class Begin>
  void four_rows(const E* x, int64_t step, const Begin& begin, T* into) const {
    const T* center = center_;
    const E *x1 = x + step, *x2 = x1 + step, *x3 = x2 + step;
#pragma GCC ivdep
    for (int64_t c = 0; c < width_; ++c) {
      T value = begin(c, Op::pre(T(x[c]), center[c]));
      value = Op::combine(value, Op::pre(T(x1[c]), center[c]));
      value = Op::combine(value, Op::pre(T(x2[c]), center[c]));
      into[c] = Op::combine(value, Op::pre(T(x3[c]), center[c]));
    }
  }
  T* lane(int64_t i) { return lanes_.data() + i * width_; }

  const BlockReader& reader_;
  const E* memory_;
  int64_t stride_;
  int64_t width_ = 0;
  const T* center_ = nullptr;
  std::vector<T> lanes_, right_;
  Scratch scratch_;
};

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

// Joins the values of such nodes, `width` each, into those of the first.
template <class Op, class T>
T* join_rows(int64_t n, int64_t most, int64_t width, T*& next) {
  if (n <= most) return std::exchange(next, next + width);
  const int64_t left = left_part(n);
  T* into = join_rows<Op>(left, most, width, next);
  const T* right = join_rows<Op>(n - left, most, width, next);
  for (int64_t c = 0; c < width; ++c) into[c] = Op::combine(into[c], right[c]);
  return into;
}

// The input as [outer, n, inner], reduced over n into results [outer, inner]; `center` is of that
// shape or null. `memory`: as for Columns. Threads share pieces of columns and, where these are
// few, nodes of the tree.
template <class Op, class T, class E>
void reduce_columns(const BlockReader& reader, const E* memory, int64_t outer, int64_t n,
                    int64_t inner, const T* center, T* results) {
  const int64_t width = std::min(inner, memory != nullptr ? kColumns : kBlock);
  const int64_t pieces = (inner + width - 1) / width;
  constexpr int64_t kTasks = 16;  // enough to share; a fixed number, as bits must not ask threads
  const int64_t most = outer * pieces >= kTasks ? n : std::max({kLeaf, n / kTasks, kGrain / width});
  std::vector<std::pair<int64_t, int64_t>> nodes;
  split_rows(0, n, most, nodes);
  const auto node_count = static_cast<int64_t>(nodes.size());
  const bool whole = node_count == 1;
  std::vector<T> parts(whole ? 0 : static_cast<size_t>(outer * pieces * node_count * width));
  const std::vector<T> zeros(center ? 0 : static_cast<size_t>(width), T(0));
  const int64_t work = nodes[0].second * width;
  parallel_for(outer * pieces * node_count, std::max<int64_t>(1, kGrain / work),
               [&](int64_t begin, int64_t end) {
                 Columns<Op, T, E> columns(reader, memory, inner, width, n);
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t piece = task / node_count, o = piece / pieces;
                   const auto [first, rows] = nodes[static_cast<size_t>(task % node_count)];
                   const int64_t c = piece % pieces * width, at = o * inner + c;
                   columns.run((o * n + first) * inner + c, rows, std::min(width, inner - c),
                               center ? center + at : zeros.data(),
                               whole ? results + at : parts.data() + task * width);
                 }
               });
  if (whole) return;
  for (int64_t piece = 0; piece < outer * pieces; ++piece) {
    T* next = parts.data() + piece * node_count * width;
    const T* sums = join_rows<Op>(n, most, width, next);
    const int64_t c = piece % pieces * width;
    std::copy_n(sums, std::min(width, inner - c), results + piece / pieces * inner + c);
  }
}

}  // namespace hero::core::cpu

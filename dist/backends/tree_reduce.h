#pragma once
// tree_reduce(): sums of many inputs in the order of Order::tree, for ordered_reduce.cpp.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include <hero/core/kernels/combine.h>

namespace hero::dist {

/// How many elements are added up at a time: 8 KiB at most, which stay in the first-level cache.
inline constexpr int64_t kReducedBlock = 1024;

/// Element i of K <= 4 inputs, as the tree adds them up.
template <int K, class T, class Acc, class Combine>
Acc tree_of(const T* const* in, int64_t i, Combine combine) {
  const auto value = [&](int k) { return static_cast<Acc>(in[k][i]); };
  if constexpr (K == 1) return value(0);
  if constexpr (K == 2) return combine(value(0), value(1));
  if constexpr (K == 3) return combine(combine(value(0), value(1)), value(2));
  if constexpr (K == 4) {
    return combine(combine(value(0), value(1)), combine(value(2), value(3)));
  }
}

/// out = finish(before + the sum of K inputs), without `before` where it is null. Element i of the
/// output depends on elements i alone, so the output may be `before` or one of the inputs; ivdep
/// tells that to the compiler, which would vectorise nothing without it.
template <int K, class T, class Acc, class Out, class Combine, class Finish>
void tree_pass(const std::byte* const* inputs, int64_t begin, int64_t n, const Acc* before,
               Out* out, Combine combine, Finish finish) {
  const T* in[K];
  for (int k = 0; k < K; ++k) in[k] = reinterpret_cast<const T*>(inputs[k]) + begin;
  if (before == nullptr) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = Out(finish(tree_of<K, T, Acc>(in, i, combine)));
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      out[i] = Out(finish(combine(before[i], tree_of<K, T, Acc>(in, i, combine))));
    }
  }
}

template <class T, class Acc, class Out, class Combine, class Finish>
void tree_passes(size_t width, const std::byte* const* inputs, int64_t begin, int64_t n,
                 const Acc* before, Out* out, Combine combine, Finish finish) {
  switch (width) {
    case 1:
      return tree_pass<1, T>(inputs, begin, n, before, out, combine, finish);
    case 2:
      return tree_pass<2, T>(inputs, begin, n, before, out, combine, finish);
    case 3:
      return tree_pass<3, T>(inputs, begin, n, before, out, combine, finish);
    default:
      return tree_pass<4, T>(inputs, begin, n, before, out, combine, finish);
  }
}

/// out = end(before + sum), element by element; `out` may be one of both.
template <class Acc, class Out, class Combine, class End>
void tree_join(int64_t n, const Acc* before, const Acc* sum, Out* out, Combine combine, End end) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = Out(end(combine(before[i], sum[i])));
}

/// output[i] = finish(T[0, n)) over the n inputs, where T[0, n) = T[0, p) + T[p, n) and p is the
/// largest power of two below n. T: as stored; Acc: as added up; Out: as the sum is stored.
// Groups of four inputs are added up in one pass. Sums of 4, 8, 16, ... inputs wait on their level
// for one of the same size, as the bits of a binary counter do: level l is filled where bit l of
// the number of groups done is set. The last group, which may be smaller, meets all that still
// wait.
template <class T, class Acc, class Out, class Combine, class Finish>
void tree_reduce(std::span<const std::byte* const> inputs, Out* output, int64_t count,
                 Combine combine, Finish finish) {
  constexpr size_t kLevels = 28;
  constexpr core::combining::Keep keep;
  const size_t last = (inputs.size() - 1) / 4;
  Acc level[kLevels][kReducedBlock];
  for (int64_t begin = 0; begin < count; begin += kReducedBlock) {
    const int64_t n = std::min(kReducedBlock, count - begin);
    Out* const out = output + begin;
    for (size_t group = 0; group < last; ++group) {
      const size_t carries = static_cast<size_t>(std::countr_one(group));
      Acc* const sum = level[carries];
      tree_pass<4, T>(&inputs[4 * group], begin, n, carries > 0 ? level[0] : nullptr, sum, combine,
                      keep);
      for (size_t l = 1; l < carries; ++l) tree_join(n, level[l], sum, sum, combine, keep);
    }
    const std::byte* const* const rest = &inputs[4 * last];
    const size_t width = inputs.size() - 4 * last;
    const Acc* before = (last & 1) != 0 ? level[0] : nullptr;
    if (last <= 1) {
      tree_passes<T>(width, rest, begin, n, before, out, combine, finish);
      continue;
    }
    const size_t top = static_cast<size_t>(std::bit_width(last));
    Acc* const sum = level[top];
    tree_passes<T>(width, rest, begin, n, before, sum, combine, keep);
    for (size_t l = 1; l + 1 < top; ++l) {
      if ((last >> l & 1) != 0) tree_join(n, level[l], sum, sum, combine, keep);
    }
    tree_join(n, level[top - 1], sum, out, combine, finish);
  }
}

}  // namespace hero::dist

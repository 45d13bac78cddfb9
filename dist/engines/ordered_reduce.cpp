#include <algorithm>
#include <type_traits>

#include <hero/core/kernels/combine.h>
#include <hero/dist/engines/ordered_reduce.h>

namespace hero::dist {
namespace {

using namespace core::combining;

constexpr int64_t kBlock = 1024;  // elements added up at a time: 8 KiB at most, stays in L1

// Adds K inputs to the running values, which begin with the first of them or come from `sum`, and
// go to `out` or stay in `sum`. T: as stored; Acc: as added up. Element i of the output depends on
// elements i alone, so it may be one of the inputs: ivdep says so, or nothing would be vectorised.
template <int K, bool kFirst, bool kLast, class T, class Acc, class Combine, class Finish>
void pass(const std::byte* const* inputs, int64_t begin, int64_t n, Acc* sum, T* out,
          Combine combine, Finish finish) {
  const T* in[K];
  for (int k = 0; k < K; ++k) in[k] = reinterpret_cast<const T*>(inputs[k]) + begin;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    Acc value = kFirst ? static_cast<Acc>(in[0][i]) : sum[i];
    for (int k = kFirst ? 1 : 0; k < K; ++k) value = combine(value, static_cast<Acc>(in[k][i]));
    if constexpr (kLast) {
      out[i] = T(finish(value));
    } else {
      sum[i] = value;
    }
  }
}

template <bool kLast, class T, class Acc, class Combine, class Finish>
void first_pass(size_t inputs_of_it, const std::byte* const* inputs, int64_t begin, int64_t n,
                Acc* sum, T* out, Combine combine, Finish finish) {
  switch (inputs_of_it) {
    case 1:
      return pass<1, true, kLast>(inputs, begin, n, sum, out, combine, finish);
    case 2:
      return pass<2, true, kLast>(inputs, begin, n, sum, out, combine, finish);
    case 3:
      return pass<3, true, kLast>(inputs, begin, n, sum, out, combine, finish);
    default:
      return pass<4, true, kLast>(inputs, begin, n, sum, out, combine, finish);
  }
}

// Up to four inputs go from memory to memory in one pass; more of them three at a time, the running
// values of a block staying in the first-level cache.
template <class T, class Acc, class Combine, class Finish>
void reduce_blocks(std::span<const std::byte* const> inputs, std::byte* output, int64_t count,
                   Combine combine, Finish finish) {
  const size_t ranks = inputs.size(), first = ranks == 1 ? 1 : 2 + (ranks - 2) % 3;
  Acc sum[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    T* const out = reinterpret_cast<T*>(output) + begin;
    if (first == ranks) {
      first_pass<true>(first, inputs.data(), begin, n, sum, out, combine, finish);
      continue;
    }
    first_pass<false>(first, inputs.data(), begin, n, sum, out, combine, finish);
    size_t done = first;
    for (; done + 3 < ranks; done += 3) {
      pass<3, false, false>(inputs.data() + done, begin, n, sum, out, combine, finish);
    }
    pass<3, false, true>(inputs.data() + done, begin, n, sum, out, combine, finish);
  }
}

// The mean of 2^k ranks is a product with a power of two: the same bits as the quotient, faster.
template <class T, class Sum>
void mean_blocks(std::span<const std::byte* const> inputs, std::byte* output, int64_t count) {
  if constexpr (std::is_floating_point_v<Sum>) {
    const Sum ranks = static_cast<Sum>(inputs.size());
    if ((inputs.size() & (inputs.size() - 1)) == 0) {
      return reduce_blocks<T, Sum>(inputs, output, count, Add{}, Scale<Sum>{Sum{1} / ranks});
    }
    return reduce_blocks<T, Sum>(inputs, output, count, Add{}, Divide<Sum>{ranks});
  }
}

template <class T>
void reduce_as(ReduceOp op, std::span<const std::byte* const> inputs, std::byte* output,
               int64_t count) {
  using Sum = typename SumType<T>::type;
  using Compared = ComparedType<T>;
  switch (op) {
    case ReduceOp::sum:
      return reduce_blocks<T, Sum>(inputs, output, count, Add{}, Keep{});
    case ReduceOp::product:
      return reduce_blocks<T, Sum>(inputs, output, count, Multiply{}, Keep{});
    case ReduceOp::min:
      return reduce_blocks<T, Compared>(inputs, output, count, Smaller{}, Keep{});
    case ReduceOp::max:
      return reduce_blocks<T, Compared>(inputs, output, count, Larger{}, Keep{});
    case ReduceOp::mean:
      return mean_blocks<T, Sum>(inputs, output, count);
  }
}

}  // namespace

void ordered_reduce(ReduceOp op, DType dtype, std::span<const std::byte* const> inputs,
                    std::byte* output, int64_t count) {
  if (dtype == kBool) {  // bytes of 0 and 1
    const bool any = op == ReduceOp::sum || op == ReduceOp::max;
    return reduce_as<uint8_t>(any ? ReduceOp::max : ReduceOp::min, inputs, output, count);
  }
  dispatch(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, bool>) reduce_as<T>(op, inputs, output, count);
  });
}

}  // namespace hero::dist

#include <algorithm>
#include <cmath>
#include <type_traits>

#include <hero/core/kernels/combine.h>
#include <hero/dist/backends/ordered_reduce.h>
#include <hero/dist/backends/tree_reduce.h>

namespace hero::dist {
namespace {

using namespace core::combining;

// Adds K inputs to the running values, which begin with the first of them or come from `sum`, and
// go to `out` or stay in `sum`. T: as stored; Acc: as added up; Out: as the last sum is stored.
// Element i of the output depends on elements i alone, so it may be one of the inputs; ivdep tells
// that to the compiler, which would vectorise nothing without it. Where nothing goes to `out`, it
// is `sum`, so that all types and ends of a sum share the function.
template <int K, bool kFirst, bool kLast, class T, class Acc, class Out, class Combine,
          class Finish>
void pass(const std::byte* const* inputs, int64_t begin, int64_t n, Acc* sum, Out* out,
          Combine combine, Finish finish) {
  const T* in[K];
  for (int k = 0; k < K; ++k) in[k] = reinterpret_cast<const T*>(inputs[k]) + begin;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    Acc value = kFirst ? static_cast<Acc>(in[0][i]) : sum[i];
    for (int k = kFirst ? 1 : 0; k < K; ++k) value = combine(value, static_cast<Acc>(in[k][i]));
    if constexpr (kLast) {
      out[i] = Out(finish(value));
    } else {
      sum[i] = value;
    }
  }
}

template <bool kLast, class T, class Acc, class Out, class Combine, class Finish>
void first_pass(size_t inputs_of_it, const std::byte* const* inputs, int64_t begin, int64_t n,
                Acc* sum, Out* out, Combine combine, Finish finish) {
  switch (inputs_of_it) {
    case 1:
      return pass<1, true, kLast, T>(inputs, begin, n, sum, out, combine, finish);
    case 2:
      return pass<2, true, kLast, T>(inputs, begin, n, sum, out, combine, finish);
    case 3:
      return pass<3, true, kLast, T>(inputs, begin, n, sum, out, combine, finish);
    default:
      return pass<4, true, kLast, T>(inputs, begin, n, sum, out, combine, finish);
  }
}

// Up to four inputs go from memory to memory in one pass; more of them three at a time, the running
// values of a block staying in the first-level cache.
template <class T, class Acc, class Out, class Combine, class Finish>
void left_reduce(std::span<const std::byte* const> inputs, Out* output, int64_t count,
                 Combine combine, Finish finish) {
  const size_t ranks = inputs.size(), first = ranks == 1 ? 1 : 2 + (ranks - 2) % 3;
  Acc sum[kReducedBlock];
  for (int64_t begin = 0; begin < count; begin += kReducedBlock) {
    const int64_t n = std::min(kReducedBlock, count - begin);
    Out* const out = output + begin;
    if (first == ranks) {
      first_pass<true, T>(first, inputs.data(), begin, n, sum, out, combine, finish);
      continue;
    }
    first_pass<false, T>(first, inputs.data(), begin, n, sum, sum, combine, Keep{});
    size_t done = first;
    for (; done + 3 < ranks; done += 3) {
      pass<3, false, false, T>(inputs.data() + done, begin, n, sum, sum, combine, Keep{});
    }
    pass<3, false, true, T>(inputs.data() + done, begin, n, sum, out, combine, finish);
  }
}

// A reduction of inputs of T, whose combinations are computed in Acc.
template <class T, class Acc>
struct Reducer {
  const core::Fold& fold;
  std::span<const std::byte* const> inputs;
  std::byte* output;
  int64_t count;

  template <class Combine, class Finish>
  void run(Combine combine, Finish finish) const {
    if (fold.result == fold.dtype) return into<T>(combine, finish);
    if constexpr (core::kIsHalf<T>) into<float>(combine, finish);
    if constexpr (std::is_same_v<T, float> && kRounds<Combine>) {
      fold.result == kFloat16 ? into<Float16>(combine, finish) : into<BFloat16>(combine, finish);
    }
  }
  // What is exact, and up to three inputs, has the same bits in both orders.
  template <class Out, class Combine, class Finish>
  void into(Combine combine, Finish finish) const {
    Out* const out = reinterpret_cast<Out*>(output);
    if constexpr (std::is_floating_point_v<Acc> && kRounds<Combine>) {
      if (fold.tree && inputs.size() > 3) {
        return tree_reduce<T, Acc>(inputs, out, count, combine, finish);
      }
    }
    left_reduce<T, Acc>(inputs, out, count, combine, finish);
  }
  // Division by 2^k is a product with a power of two: the same bits, faster.
  void mean() const {
    if constexpr (std::is_floating_point_v<Acc>) {
      const auto divisor = static_cast<Acc>(divisor_of(fold, inputs.size()));
      int exponent = 0;
      if (std::frexp(divisor, &exponent) == Acc(0.5)) return run(Add{}, Scale<Acc>{1 / divisor});
      run(Add{}, Divide<Acc>{divisor});
    }
  }
};

template <class T>
void reduce_as(const core::Fold& fold, std::span<const std::byte* const> inputs, std::byte* output,
               int64_t count) {
  const Reducer<T, SumType<T>> added{fold, inputs, output, count};
  const Reducer<T, core::ComputeOf<T>> compared{fold, inputs, output, count};
  switch (fold.op) {
    case core::Combine::sum:
      return added.run(Add{}, Keep{});
    case core::Combine::product:
      return added.run(Multiply{}, Keep{});
    case core::Combine::min:
      return compared.run(Smaller{}, Keep{});
    case core::Combine::max:
      return compared.run(Larger{}, Keep{});
    case core::Combine::mean:
      return added.mean();
  }
}

}  // namespace

void ordered_reduce(const core::Fold& fold, std::span<const std::byte* const> inputs,
                    std::byte* output, int64_t count) {
  using core::Combine;
  if (fold.dtype == kBool) {  // bytes of 0 and 1
    const bool any = fold.op == Combine::sum || fold.op == Combine::max;
    return reduce_as<uint8_t>(
        {.op = any ? Combine::max : Combine::min, .dtype = kUInt8, .result = kUInt8}, inputs,
        output, count);
  }
  dispatch(fold.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, bool>) reduce_as<T>(fold, inputs, output, count);
  });
}

}  // namespace hero::dist

#include <algorithm>
#include <type_traits>

#include <hero/dist/ordered_reduce.h>

namespace hero::dist {
namespace {

constexpr int64_t kBlock = 1024;  // elements added up at a time: 8 KiB at most, stays in L1

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

// What a dtype is added up in: integers unsigned, so that they wrap by definition.
template <class T>
struct SumType {
  using type = T;
};
template <>
struct SumType<Float16> {
  using type = float;
};
template <>
struct SumType<BFloat16> {
  using type = float;
};
template <>
struct SumType<int32_t> {
  using type = uint32_t;
};
template <>
struct SumType<int64_t> {
  using type = uint64_t;
};

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};
struct Multiply {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a * b);
  }
};
// A NaN on either side stays: no comparison with it is true.
struct Smaller {
  template <class T>
  T operator()(T a, T b) const {
    return (b < a || b != b) ? b : a;
  }
};
struct Larger {
  template <class T>
  T operator()(T a, T b) const {
    return (b > a || b != b) ? b : a;
  }
};

// T: as stored; Acc: as added up.
template <class T, class Acc, class Combine>
void reduce_blocks(std::span<const std::byte* const> inputs, std::byte* output, int64_t count,
                   Combine combine, Acc divisor) {
  Acc sum[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    const T* first = reinterpret_cast<const T*>(inputs[0]) + begin;
    for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<Acc>(first[i]);
    for (size_t rank = 1; rank < inputs.size(); ++rank) {
      const T* next = reinterpret_cast<const T*>(inputs[rank]) + begin;
      for (int64_t i = 0; i < n; ++i) sum[i] = combine(sum[i], static_cast<Acc>(next[i]));
    }
    T* out = reinterpret_cast<T*>(output) + begin;
    if constexpr (std::is_floating_point_v<Acc>) {
      if (divisor != Acc{1}) {
        for (int64_t i = 0; i < n; ++i) sum[i] = sum[i] / divisor;
      }
    }
    for (int64_t i = 0; i < n; ++i) out[i] = T(sum[i]);
  }
}

template <class T>
void reduce_as(ReduceOp op, std::span<const std::byte* const> inputs, std::byte* output,
               int64_t count) {
  using Sum = typename SumType<T>::type;
  using Order = std::conditional_t<kIsHalf<T>, float, T>;
  switch (op) {
    case ReduceOp::sum:
      return reduce_blocks<T, Sum>(inputs, output, count, Add{}, Sum{1});
    case ReduceOp::product:
      return reduce_blocks<T, Sum>(inputs, output, count, Multiply{}, Sum{1});
    case ReduceOp::min:
      return reduce_blocks<T, Order>(inputs, output, count, Smaller{}, Order{1});
    case ReduceOp::max:
      return reduce_blocks<T, Order>(inputs, output, count, Larger{}, Order{1});
    case ReduceOp::mean:
      return reduce_blocks<T, Sum>(inputs, output, count, Add{}, static_cast<Sum>(inputs.size()));
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

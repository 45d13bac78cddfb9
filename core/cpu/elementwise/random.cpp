#include <bit>
#include <type_traits>

#include <hero/core/cpu/block_io.h>
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/random.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

template <class T>
void draw(const RandomFill& fill, std::span<T> out, int64_t first) {
  const RandomStream stream{fill.seed, fill.stream};
  if constexpr (std::is_same_v<T, bool>) {
    fill_bernoulli(out, stream, first, fill.a);
  } else if constexpr (std::is_same_v<T, int64_t>) {
    fill_randint(out, stream, first, fill.low, fill.high);
  } else if (fill.kind == RandomFill::Kind::uniform) {
    fill_uniform(out, stream, first, static_cast<T>(fill.a), static_cast<T>(fill.b));
  } else if (fill.kind == RandomFill::Kind::normal) {
    fill_normal(out, stream, first, fill.a, fill.b);
  } else {
    fill_exponential(out, stream, first, fill.a);
  }
}

// Numbers are drawn in the type T and converted to the array's as they are stored.
template <class T>
void random_as(const RandomFill& fill, int64_t first, const Array& out) {
  const BlockWriter writer(out, kDTypeOf<T>);
  parallel_for(out.numel(), kGrain, [&](int64_t begin, int64_t end) {
    Scratch scratch;
    const int64_t step = writer.direct() ? end - begin : kBlock;
    for (int64_t at = begin; at < end; at += step) {
      const int64_t count = std::min(step, end - at);
      auto* target = reinterpret_cast<T*>(writer.target(at, scratch.bytes));
      draw(fill, std::span<T>(target, static_cast<size_t>(count)), first + at);
      writer.commit(at, count, scratch.bytes);
    }
  });
}

// The mask is drawn a block at a time and never stored.
template <class T>
void mask_as(const RandomFill& fill, int64_t first, double scale, const Array& x,
             const Array& out) {
  const BlockReader reader(x, out.shape(), kDTypeOf<T>);
  const BlockWriter writer(out, kDTypeOf<T>);
  const T factor = static_cast<T>(scale);
  parallel_for(out.numel(), kGrain, [&](int64_t begin, int64_t end) {
    Scratch read, written;
    bool mask[kBlock];
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t count = std::min(kBlock, end - at);
      fill_bernoulli(std::span<bool>(mask, static_cast<size_t>(count)), {fill.seed, fill.stream},
                     first + at, fill.a);
      const auto* from = reinterpret_cast<const T*>(reader.read(at, count, read.bytes));
      auto* to = reinterpret_cast<T*>(writer.target(at, written.bytes));
      // without branches, which nobody could foresee
      using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
      const auto* kept = reinterpret_cast<const uint8_t*>(mask);
#pragma GCC ivdep
      for (int64_t i = 0; i < count; ++i) {
        to[i] = std::bit_cast<T>(std::bit_cast<Bits>(from[i] * factor) & (Bits(0) - Bits(kept[i])));
      }
      writer.commit(at, count, written.bytes);
    }
  });
}

}  // namespace

void BasicKernels::run(const call::Random& call) {
  if (call.out.numel() == 0) return;
  if (call.fill.kind == RandomFill::Kind::integer)
    return random_as<int64_t>(call.fill, call.first, call.out);
  if (call.fill.kind == RandomFill::Kind::bernoulli)
    return random_as<bool>(call.fill, call.first, call.out);
  if (call.out.dtype() == kFloat64) return random_as<double>(call.fill, call.first, call.out);
  random_as<float>(call.fill, call.first, call.out);
}

void BasicKernels::run(const call::RandomMask& call) {
  if (call.out.numel() == 0) return;
  if (call.out.dtype() == kFloat64)
    return mask_as<double>(call.fill, call.first, call.scale, call.x, call.out);
  mask_as<float>(call.fill, call.first, call.scale, call.x, call.out);
}

}  // namespace hero::core::cpu

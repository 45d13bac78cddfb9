// Random numbers: those of the CPU, since number i depends on the seed, the stream and i alone.
#include <hero/core/kernels/draws.h>
#include <hero/core/random.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/elementwise/elements.cuh>
#include <hero/cuda/elementwise/layout.cuh>
#include <hero/cuda/elementwise/walk.cuh>
#include <hero/cuda/runtime/graph.cuh>

namespace hero::cuda {

namespace {

// Elements of an array of any dtype, by their row-major position.
struct UntypedArray {
  std::byte* bytes;
  DType dtype;
  Layout layout;

  explicit UntypedArray(const Array& array)
      : bytes(array.bytes()), dtype(array.dtype()), layout(array) {}
};

// Which words: element 0 of the output has the number `first` of its stream.
struct Source {
  uint64_t key, stream, first;
  const RandomBase* base;  // of a step that is replayed, else null

  Source(const RandomFill& fill, int64_t start)
      : key(fill.seed),
        stream(fill.stream),
        first(static_cast<uint64_t>(start)),
        base(random_base(fill.seed, fill.stream)) {}
  __device__ philox::Block block(uint64_t index) const {
    return base ? philox::block(base->seed, stream + base->shift, index)
                : philox::block(key, stream, index);
  }
};

/// One thread a Philox block, whose numbers lie at neighbouring positions.
template <class Draw>
__global__ void __launch_bounds__(kThreads)
    random_kernel(const Draw draw, const Source source, const UntypedArray out, const uint64_t n) {
  constexpr int kCount = draws::kPerBlock<Draw>;
  using Number = typename Draw::Number;
  const uint64_t first_block = source.first / kCount;
  const uint64_t blocks = (source.first + n + kCount - 1) / kCount - first_block;
  const bool dense = out.layout.dense();
  const auto step = static_cast<uint64_t>(grid_threads());
  for (auto i = static_cast<uint64_t>(global_thread()); i < blocks; i += step) {
    Number values[kCount];
    draws::numbers(draw, source.block(first_block + i), values);
    const uint64_t begin = (first_block + i) * kCount;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const uint64_t number = begin + static_cast<uint64_t>(j);
      if (number < source.first || number >= source.first + n) continue;
      const auto at = static_cast<int64_t>(number - source.first);
      write_as(out.bytes, out.dtype, dense ? at : out.layout.at(at), values[j]);
    }
  }
}

template <class Draw>
void draw_into(const Draw& draw, const RandomFill& fill, int64_t first, const Array& out) {
  const int64_t threads = out.numel() / draws::kPerBlock<Draw> + 2;
  launch("random", random_kernel<Draw>, loop_blocks(threads), dim3(kThreads), 0, draw,
         Source(fill, first), UntypedArray(out), static_cast<uint64_t>(out.numel()));
}

// Numbers are drawn as float or double. Asking the host for none of them checks the parameters, in
// its words.
template <class T>
void draw_floats(const RandomFill& fill, int64_t first, const Array& out) {
  const hero::RandomStream stream{fill.seed, fill.stream};
  if (fill.kind == RandomFill::Kind::uniform) {
    const T low = static_cast<T>(fill.a), high = static_cast<T>(fill.b);
    fill_uniform(std::span<T>(), stream, first, low, high);
    draw_into(draws::Uniform<T>(low, high), fill, first, out);
  } else if (fill.kind == RandomFill::Kind::normal) {
    fill_normal(std::span<T>(), stream, first, fill.a, fill.b);
    draw_into(draws::Normal<T>{fill.a, fill.b}, fill, first, out);
  } else {
    fill_exponential(std::span<T>(), stream, first, fill.a);
    draw_into(draws::Exponential<T>{fill.a}, fill, first, out);
  }
}

// Dense arrays of one floating dtype whose first element begins a block: vectors of 16 bytes, and
// the words of as many elements.
template <class S>
__global__ void __launch_bounds__(kThreads)
    mask_vectors_kernel(const Source source, const draws::Bernoulli keeps,
                        const ComputeOf<S> factor, const S* x, S* out, const int64_t n) {
  using T = ComputeOf<S>;
  constexpr int kVector = kVectorBytes / sizeof(S);
  const int64_t step = grid_threads() * kVector;
  for (int64_t e = global_thread() * kVector; e < n; e += step) {
    T values[kVector];
    read_vector(x + e, n - e, values);
    const auto first = static_cast<uint64_t>(e);
#pragma unroll
    for (int j = 0; j < kVector; j += 4) {
      const philox::Block words =
          source.block((source.first + first + static_cast<uint64_t>(j)) / 4);
#pragma unroll
      for (int i = 0; i < 4 && j + i < kVector; ++i) {
        // two doubles are the first or the second half of a block
        const uint32_t word =
            kVector == 2 && first % 4 != 0 ? words.word[2 + i % 2] : words.word[i];
        values[j + i] = keeps(word) ? values[j + i] * factor : T(0);
      }
    }
    write_vector(out + e, n - e, values);
  }
}

/// Any layouts and dtypes, one thread an element.
template <class T>
__global__ void __launch_bounds__(kThreads)
    mask_kernel(const Source source, const draws::Bernoulli keeps, const T factor,
                const UntypedArray x, const UntypedArray out, const int64_t n) {
  for (int64_t i = global_thread(); i < n; i += grid_threads()) {
    const auto at = source.first + static_cast<uint64_t>(i);
    const philox::Block words = source.block(at / 4);
    const uint32_t low = at % 2 == 0 ? words.word[0] : words.word[1];
    const uint32_t high = at % 2 == 0 ? words.word[2] : words.word[3];
    const T value = read_as<T>(x.bytes, x.dtype, x.layout.at(i));
    const T result = keeps(at % 4 < 2 ? low : high) ? value * factor : T(0);
    write_as(out.bytes, out.dtype, out.layout.at(i), result);
  }
}

template <class S>
void mask(const Source& source, const draws::Bernoulli& keeps, double scale, const Array& x,
          const Array& out) {
  using T = ComputeOf<S>;
  const int64_t n = out.numel();
  const T factor = static_cast<T>(scale);
  const bool vectors = source.first % 4 == 0 && x.is_contiguous() && out.is_contiguous() &&
                       x.shape() == out.shape() && x.dtype() == out.dtype() &&
                       aligned(x.bytes(), kVectorBytes) && aligned(out.bytes(), kVectorBytes);
  if (vectors) {
    constexpr int64_t kVector = kVectorBytes / sizeof(S);
    launch("random_mask", mask_vectors_kernel<S>, loop_blocks((n + kVector - 1) / kVector),
           dim3(kThreads), 0, source, keeps, factor, reinterpret_cast<const S*>(x.bytes()),
           reinterpret_cast<S*>(out.bytes()), n);
    return;
  }
  launch("random_mask", mask_kernel<T>, loop_blocks(n), dim3(kThreads), 0, source, keeps, factor,
         UntypedArray(x.expand(out.shape())), UntypedArray(out), n);
}

}  // namespace

void CudaBackend::run(const call::Random& call) {
  if (call.out.numel() == 0) return;
  const DeviceGuard guard(index_);
  const double parameters[] = {call.fill.a, call.fill.b, static_cast<double>(call.fill.low),
                               static_cast<double>(call.fill.high),
                               static_cast<double>(call.first)};
  note_values("random", parameters);
  const hero::RandomStream stream{call.fill.seed, call.fill.stream};
  if (call.fill.kind == RandomFill::Kind::integer) {
    fill_randint(std::span<int64_t>(), stream, call.first, call.fill.low, call.fill.high);
    const auto low = static_cast<uint64_t>(call.fill.low);
    const draws::Integer draw{low, static_cast<uint64_t>(call.fill.high) - low};
    return draw_into(draw, call.fill, call.first, call.out);
  }
  if (call.fill.kind == RandomFill::Kind::bernoulli) {
    fill_bernoulli(std::span<bool>(), stream, call.first, call.fill.a);
    return draw_into(draws::Bernoulli(call.fill.a), call.fill, call.first, call.out);
  }
  if (call.out.dtype() == kFloat64) return draw_floats<double>(call.fill, call.first, call.out);
  draw_floats<float>(call.fill, call.first, call.out);
}

void CudaBackend::run(const call::RandomMask& call) {
  if (call.out.numel() == 0) return;
  const DeviceGuard guard(index_);
  fill_bernoulli(std::span<bool>(), {call.fill.seed, call.fill.stream}, call.first, call.fill.a);
  const Source source(call.fill, call.first);
  const double parameters[] = {call.fill.a, call.scale, static_cast<double>(call.first)};
  note_values("random_mask", parameters);
  const draws::Bernoulli keeps(call.fill.a);
  switch (call.out.dtype()) {
    case DType::float64:
      return mask<double>(source, keeps, call.scale, call.x, call.out);
    case DType::bfloat16:
      return mask<BFloat16>(source, keeps, call.scale, call.x, call.out);
    case DType::float16:
      return mask<Float16>(source, keeps, call.scale, call.x, call.out);
    default:
      return mask<float>(source, keeps, call.scale, call.x, call.out);
  }
}

}  // namespace hero::cuda

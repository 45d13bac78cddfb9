// Exact sums on the device: the words of core/exact_sum.h, added up by integers alone, so that no
// order of threads shows. A warp takes 512 elements at a time and cuts their terms on three fixed
// grids, as the CPU does; what is left below the last grid is added one by one.
#include <bit>

#include <hero/core/exact_sum.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/index_lines.cuh>
#include <hero/cuda/launch.cuh>

namespace hero::cuda {

namespace {

using core::ExactSum;
using Word = unsigned long long;

constexpr int kEach = 16;             // elements of a lane at a time
constexpr int kTile = kWarp * kEach;  // of a warp
constexpr int kParts = 3, kPartBits = 51;
constexpr int64_t kMostBlocks = 132 * 8;  // fill the GPU; each ends with a carry by one thread
constexpr uint64_t kFraction = (uint64_t{1} << 52) - 1;

__device__ int exponent_field(double x) {
  return static_cast<int>(std::bit_cast<uint64_t>(x) >> 52) & 0x7FF;
}

// value * 2^exponent, by the three digits that it reaches.
__device__ void add_integer(Word* digits, int64_t value, int exponent) {
  const int position = exponent - ExactSum::kLowest, shift = position % 32;
  Word* digit = digits + position / 32;
  constexpr int64_t kMask = 0xFFFFFFFF;
  const int64_t low = (value & kMask) << shift, high = (value >> 32) * (int64_t{1} << shift);
  atomicAdd(digit, static_cast<Word>(low & kMask));
  atomicAdd(digit + 1, static_cast<Word>((low >> 32) + (high & kMask)));
  atomicAdd(digit + 2, static_cast<Word>(high >> 32));
}

// A finite number and its sign.
__device__ void add_term(Word* digits, double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  const int field = exponent_field(x);
  const auto fraction = static_cast<int64_t>(bits & kFraction);
  const int64_t integer = field == 0 ? fraction : fraction | (int64_t{1} << 52);
  add_integer(digits, bits >> 63 != 0 ? -integer : integer, field == 0 ? -1074 : field - 1075);
}

// x^2 in two integers: all 106 bits.
__device__ void add_square(Word* digits, double x) {
  constexpr int64_t kHalf = int64_t{1} << 27;
  const int field = exponent_field(x);
  const auto fraction = static_cast<int64_t>(std::bit_cast<uint64_t>(x) & kFraction);
  const int64_t integer = field == 0 ? fraction : fraction | (int64_t{1} << 52);
  const int exponent = field == 0 ? -1074 : field - 1075;
  const int64_t a = integer / kHalf, b = integer % kHalf, middle = 2 * a * b;
  add_integer(digits, a * a + middle / kHalf, 2 * exponent + 54);
  add_integer(digits, b * b + middle % kHalf * kHalf, 2 * exponent);
}

// A block's words, and one more: infinities are noted in word kDigits, NaN in the last.
constexpr size_t kBlockWords = ExactSum::kWords + 1;

// The block's words, carried, into those of the array.
__device__ void flush(Word* digits, bool nan, bool infinite, Word* words) {
  if (infinite) digits[ExactSum::kDigits] = ExactSum::kInfinite;
  if (nan) digits[ExactSum::kWords] = ExactSum::kNan;
  __syncthreads();
  if (threadIdx.x == 0) {
    int64_t carried = 0;
    for (size_t i = 0; i + 1 < ExactSum::kDigits; ++i) {
      const int64_t digit = static_cast<int64_t>(digits[i]) + carried;
      digits[i] = static_cast<Word>(digit & 0xFFFFFFFF);
      carried = digit >> 32;
    }
    digits[ExactSum::kDigits - 1] += static_cast<Word>(carried);
    digits[ExactSum::kDigits] += digits[ExactSum::kWords];
  }
  __syncthreads();
  for (size_t i = threadIdx.x; i < ExactSum::kWords; i += blockDim.x) {
    if (digits[i] != 0) atomicAdd(words + i, digits[i]);
  }
}

__device__ void clear(Word* digits) {
  for (size_t i = threadIdx.x; i < kBlockWords; i += blockDim.x) digits[i] = 0;
  __syncthreads();
}

// The elements of this lane from a warp's tile: whole vectors, or what there is at the end.
template <class T>
__device__ void load_tile(const T* x, int64_t first, int64_t n, int lane, float (&values)[kEach]) {
  constexpr int kPack = 16 / static_cast<int>(sizeof(T)), kPacks = kEach / kPack;
  if (first + kTile <= n) {
    const auto* packs = reinterpret_cast<const Pack<T, kPack>*>(x + first);
    for (int p = 0; p < kPacks; ++p) {
      const Pack<T, kPack> pack = packs[p * kWarp + lane];
      for (int j = 0; j < kPack; ++j) values[p * kPack + j] = convert<float>(pack.at[j]);
    }
  } else {
    for (int j = 0; j < kEach; ++j) {
      const int64_t at = first + j * kWarp + lane;
      values[j] = at < n ? convert<float>(x[at]) : 0.0f;
    }
  }
}

template <bool kSquare>
__device__ double term_of(float x) {
  const double wide = x;
  return kSquare ? wide * wide : std::fabs(wide);
}

// One tile: `values` are finite. Adding and subtracting an offset rounds to a multiple of its grid,
// and that multiple stands in the last bits of the sum, where integers add it up in any order.
template <bool kSquare>
__device__ void add_tile(Word* digits, int lane, uint32_t largest, const float (&values)[kEach]) {
  int grid = exponent_field(term_of<kSquare>(std::bit_cast<float>(largest))) - 1023 + 1 - kPartBits;
  double offset[kParts];
  uint64_t offset_bits[kParts], sums[kParts] = {};
  for (int p = 0; p < kParts; ++p) {  // 1.5 * 2^(52 + grid)
    const auto field = static_cast<uint64_t>(52 + grid - p * kPartBits + 1023);
    offset_bits[p] = field << 52 | uint64_t{1} << 51;
    offset[p] = std::bit_cast<double>(offset_bits[p]);
  }
  for (int j = 0; j < kEach; ++j) {
    double rest = term_of<kSquare>(values[j]);
    for (int p = 0; p < kParts; ++p) {
      const double shifted = rest + offset[p];
      rest -= shifted - offset[p];
      sums[p] += std::bit_cast<uint64_t>(shifted) - offset_bits[p];
    }
    if (rest != 0.0) add_term(digits, rest);
  }
  for (int p = 0; p < kParts; ++p, grid -= kPartBits) {
    uint64_t sum = sums[p];
    for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
    if (lane == 0) add_integer(digits, static_cast<int64_t>(sum), grid);
  }
}

template <class T, bool kSquare>
__global__ void __launch_bounds__(kThreads) exact_sum_kernel(const T* x, int64_t n, Word* words) {
  __shared__ Word digits[kBlockWords];
  clear(digits);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  bool nan = false, infinite = false;
  for (int64_t first = global_thread() / kWarp * kTile; first < n;
       first += grid_threads() / kWarp * kTile) {
    float values[kEach];
    load_tile(x, first, n, lane, values);
    uint32_t largest = 0;
    for (int j = 0; j < kEach; ++j) {
      const uint32_t magnitude = std::bit_cast<uint32_t>(values[j]) & 0x7FFFFFFFu;
      if (magnitude >= 0x7F800000u) {
        (magnitude > 0x7F800000u ? nan : infinite) = true;
        values[j] = 0.0f;
      } else {
        largest = std::max(largest, magnitude);
      }
    }
    for (int step = kWarp / 2; step > 0; step /= 2) {
      largest = std::max(largest, __shfl_xor_sync(kAllLanes, largest, step));
    }
    if (largest != 0) add_tile<kSquare>(digits, lane, largest, values);
  }
  flush(digits, nan, infinite, words);
}

// float64: every element by itself.
template <bool kSquare>
__global__ void __launch_bounds__(kThreads)
    exact_sum_wide_kernel(const double* x, int64_t n, Word* words) {
  __shared__ Word digits[kBlockWords];
  clear(digits);
  bool nan = false, infinite = false;
  for (int64_t i = global_thread(); i < n; i += grid_threads()) {
    if (exponent_field(x[i]) == 0x7FF) {
      (x[i] != x[i] ? nan : infinite) = true;
    } else {
      kSquare ? add_square(digits, x[i]) : add_term(digits, std::fabs(x[i]));
    }
  }
  flush(digits, nan, infinite, words);
}

}  // namespace

void CudaBackend::exact_sum(ReduceOp op, const Array& x, const Array& words) {
  if (x.numel() == 0) return;
  const DeviceGuard guard(index_);
  const bool square = op == ReduceOp::sum_square;
  const bool fits = x.is_contiguous() && aligned_to(x.bytes(), 16, 0);
  const Array values = fits ? x : x.clone();
  const int64_t n = values.numel();
  auto* sum = reinterpret_cast<Word*>(words.bytes());
  const auto start = [&](auto kernel, int64_t elements_of_block, const auto* data) {
    const dim3 blocks = blocks_for(std::min(n, kMostBlocks * elements_of_block), elements_of_block);
    launch("exact_sum", kernel, blocks, dim3(kThreads), 0, data, n, sum);
  };
  dispatch(values.dtype(), [&]<class T>(TypeTag<T>) {
    const auto* data = reinterpret_cast<const T*>(values.bytes());
    if constexpr (std::is_same_v<T, double>) {
      start(square ? exact_sum_wide_kernel<true> : exact_sum_wide_kernel<false>, kThreads, data);
    } else if constexpr (!std::is_integral_v<T>) {
      start(square ? exact_sum_kernel<T, true> : exact_sum_kernel<T, false>, kThreads * kEach,
            data);
    }
  });
}

}  // namespace hero::cuda

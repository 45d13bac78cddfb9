// Exact sums on the device: the words of core/functions/exact_sum.h, added up in integers, so that
// the order of threads has no effect. A warp takes 512 elements at a time and splits their terms on
// two fixed grids, and on a third if a remainder is left; remainders after that are added one by
// one.
#include <bit>
#include <vector>

#include <hero/core/kernels/exact_digits.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/elementwise/tensor_table.cuh>

namespace hero::cuda {

namespace {

namespace exact = core::exact;
using Word = unsigned long long;

constexpr int kEach = 16;             // elements of a lane at a time
constexpr int kTile = kWarp * kEach;  // of a warp
constexpr int kPartBits = 51;
constexpr uint32_t kMostBlocks = 132 * 8;  // fill the GPU; each ends with a carry by one thread
// Elements of a block at a time: float64 is taken one by one.
template <class T>
inline constexpr int64_t kShare = (std::is_same_v<T, double> ? 1 : kEach) * kThreads;

// value * 2^exponent
__device__ void add_integer(Word* digits, int64_t value, int exponent) {
  exact::split_integer(value, exponent, [digits](int digit, int64_t amount) {
    atomicAdd(digits + digit, static_cast<Word>(amount));
  });
}

// A finite number and its sign.
__device__ void add_term(Word* digits, double x) {
  const auto [integer, exponent] = exact::parts_of(x);
  add_integer(digits, std::bit_cast<uint64_t>(x) >> 63 != 0 ? -integer : integer, exponent);
}

// A block's words, and one more: infinities are noted in word kDigits, NaN in the last.
constexpr int kBlockWords = exact::kWords + 1;

// What of a block's elements is not finite.
struct Found {
  bool nan = false, infinite = false;
};

// The block's words, carried, into those of a sum.
__device__ void flush(Word* digits, const Found& found, Word* words) {
  if (found.infinite) digits[exact::kDigits] = exact::kInfinite;
  if (found.nan) digits[exact::kWords] = exact::kNan;
  __syncthreads();
  if (threadIdx.x == 0) {
    int64_t carried = 0;
    for (int i = 0; i + 1 < exact::kDigits; ++i) {
      const int64_t digit = static_cast<int64_t>(digits[i]) + carried;
      digits[i] = static_cast<Word>(digit & 0xFFFFFFFF);
      carried = digit >> 32;
    }
    digits[exact::kDigits - 1] += static_cast<Word>(carried);
    digits[exact::kDigits] += digits[exact::kWords];
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < exact::kWords; i += blockDim.x) {
    if (digits[i] != 0) atomicAdd(words + i, digits[i]);
  }
}

__device__ void clear(Word* digits) {
  for (unsigned i = threadIdx.x; i < kBlockWords; i += blockDim.x) digits[i] = 0;
  __syncthreads();
}

// Where a launch adds its sums up: one for all tensors, or one for each.
struct Sums {
  Word* words;
  bool each;

  __device__ Word* of(const TensorTable& table, int tensor) const {
    return words + (each ? int64_t{table.places[tensor]} * exact::kWords : 0);
  }
};

// Calls add(tensor, share of it, found) for the shares of this block and adds up what that leaves
// in `digits`. The shares are neighbours, so that most blocks see one tensor and carry once.
template <class Add>
__device__ void each_share(const TensorTable& table, const Sums& sums, Word* digits,
                           const Add& add) {
  const auto cut = [&](uint32_t block) {
    return static_cast<uint32_t>(uint64_t{table.shares.all()} * block / gridDim.x);
  };
  const uint32_t end = cut(blockIdx.x + 1);
  uint32_t share = cut(blockIdx.x);
  int tensor = table.shares.find(share);
  while (share < end) {
    Word* const words = sums.of(table, tensor);
    Found found;
    clear(digits);
    for (; share < end && sums.of(table, tensor) == words; ++share) {
      add(tensor, static_cast<int64_t>(share - table.shares.first[tensor]), found);
      if (share + 1 == table.shares.first[tensor + 1]) ++tensor;
    }
    flush(digits, found, words);
  }
}

// The elements of this lane from a warp's tile: whole vectors, or, at the end of a tensor or where
// its address is not that of a vector, one by one.
template <class T>
__device__ void load_tile(const T* x, int64_t first, int64_t n, bool vectors, int lane,
                          float (&values)[kEach]) {
  constexpr int kPack = 16 / static_cast<int>(sizeof(T)), kPacks = kEach / kPack;
  if (vectors && first + kTile <= n) {
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

// Adding and subtracting an offset rounds to a multiple of its grid, and that multiple stands in
// the last bits of the sum, where integers add it up in any order.
struct Grid {
  uint64_t bits;  // of the offset, 1.5 * 2^(52 + exponent)

  explicit __device__ Grid(int exponent)
      : bits(static_cast<uint64_t>(52 + exponent + 1023) << 52 | uint64_t{1} << 51) {}
  // Adds x's multiple, and one offset, to `sum`; gives what is left of x.
  __device__ double take(double x, uint64_t& sum) const {
    const double offset = std::bit_cast<double>(bits), shifted = x + offset;
    sum += std::bit_cast<uint64_t>(shifted);
    return x - (shifted - offset);
  }
};

// What the lanes of a warp have added up on a grid, kEach terms each.
__device__ void add_sums(Word* digits, int lane, const Grid& grid, uint64_t sum, int exponent) {
  sum -= kEach * grid.bits;
  for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
  if (lane == 0) add_integer(digits, static_cast<int64_t>(sum), exponent);
}

// One tile of finite values. Two grids are enough where no value is 2^27 times another.
template <bool kSquare>
__device__ void add_tile(Word* digits, int lane, uint32_t largest, const float (&values)[kEach]) {
  const int exponent =
      exact::exponent_field(term_of<kSquare>(std::bit_cast<float>(largest))) - 1023 + 1 - kPartBits;
  const Grid first(exponent), second(exponent - kPartBits);
  uint64_t first_sum = 0, second_sum = 0, left = 0;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const double rest = first.take(term_of<kSquare>(values[j]), first_sum);
    left |= std::bit_cast<uint64_t>(second.take(rest, second_sum));
  }
  add_sums(digits, lane, first, first_sum, exponent);
  add_sums(digits, lane, second, second_sum, exponent - kPartBits);
  if (__ballot_sync(kAllLanes, left != 0) == 0) return;
  const Grid third(exponent - 2 * kPartBits);
  uint64_t third_sum = 0;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const double rest = first.take(term_of<kSquare>(values[j]), first_sum);
    const double last = third.take(second.take(rest, second_sum), third_sum);
    if (last != 0.0) add_term(digits, last);
  }
  add_sums(digits, lane, third, third_sum, exponent - 2 * kPartBits);
}

// The largest magnitude of a warp's tile, as bits. What is not finite is noted and becomes 0.
__device__ uint32_t largest_of(float (&values)[kEach], Found& found) {
  constexpr uint32_t kInfinity = 0x7F800000u;
  const auto of_warp = [&values] {
    uint32_t largest = 0;
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      largest = std::max(largest, std::bit_cast<uint32_t>(values[j]) & 0x7FFFFFFFu);
    return __reduce_max_sync(kAllLanes, largest);
  };
  const uint32_t largest = of_warp();
  if (largest < kInfinity) return largest;
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(values[j]) & 0x7FFFFFFFu;
    if (magnitude < kInfinity) continue;
    (magnitude > kInfinity ? found.nan : found.infinite) = true;
    values[j] = 0.0f;
  }
  return of_warp();
}

template <class T, bool kSquare>
__global__ void __launch_bounds__(kThreads)
    exact_sum_kernel(const TensorTable table, const Sums sums) {
  __shared__ Word digits[kBlockWords];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  each_share(table, sums, digits, [&](int tensor, int64_t share, Found& found) {
    const int64_t n = table.sizes[tensor];
    const int64_t first = share * kShare<T> + threadIdx.x / kWarp * kTile;
    if (first >= n) return;
    float values[kEach];
    load_tile(reinterpret_cast<const T*>(table.data[tensor]), first, n, table.vectors[tensor], lane,
              values);
    const uint32_t largest = largest_of(values, found);
    if (largest != 0) add_tile<kSquare>(digits, lane, largest, values);
  });
}

// float64: every element by itself.
template <bool kSquare>
__global__ void __launch_bounds__(kThreads)
    exact_sum_wide_kernel(const TensorTable table, const Sums sums) {
  __shared__ Word digits[kBlockWords];
  each_share(table, sums, digits, [&](int tensor, int64_t share, Found& found) {
    const int64_t i = share * kShare<double> + threadIdx.x;
    if (i >= table.sizes[tensor]) return;
    const double x = reinterpret_cast<const double*>(table.data[tensor])[i];
    if (exact::exponent_field(x) == exact::kExponents) {
      (x != x ? found.nan : found.infinite) = true;
    } else if (kSquare) {
      exact::split_square(
          x, [&](int64_t value, int exponent) { add_integer(digits, value, exponent); });
    } else {
      add_term(digits, std::fabs(x));
    }
  });
}

// A sum a block. Carrying is one thread's work, so the words are brought near it first.
__global__ void exact_result_kernel(const int64_t* words, bool root, double* out) {
  __shared__ int64_t carried[exact::kWords];
  const int64_t* const own = words + int64_t{blockIdx.x} * exact::kWords;
  for (unsigned i = threadIdx.x; i < exact::kWords; i += blockDim.x) carried[i] = own[i];
  __syncthreads();
  if (threadIdx.x != 0) return;
  exact::carry(carried);
  out[blockIdx.x] = root ? exact::root(carried) : exact::value(carried);
}

}  // namespace

void CudaBackend::run(const call::ExactSum& call) {
  const DeviceGuard guard(index_);
  const bool square = call.op == ReduceKind::sum_square;
  const Sums sums{reinterpret_cast<Word*>(call.words.bytes()), call.words.ndim() == 2};
  std::vector<Array> dense;
  for (const Array& x : call.xs) dense.push_back(x.contiguous());
  const auto share = []<class T>(TypeTag<T>) { return kShare<T>; };
  each_table(dense, share, [&]<class T>(TypeTag<T>, const TensorTable& table) {
    void (*kernel)(TensorTable, Sums) = nullptr;
    if constexpr (std::is_same_v<T, double>) {
      kernel = square ? exact_sum_wide_kernel<true> : exact_sum_wide_kernel<false>;
    } else {
      kernel = square ? exact_sum_kernel<T, true> : exact_sum_kernel<T, false>;
    }
    const dim3 blocks(std::min(table.shares.all(), kMostBlocks));
    launch("exact_sum", kernel, blocks, dim3(kThreads), 0, table, sums);
  });
}

void CudaBackend::run(const call::ExactResult& call) {
  const DeviceGuard guard(index_);
  const dim3 blocks(static_cast<unsigned>(call.out.numel()));
  launch("exact_sum", exact_result_kernel, blocks, dim3(kThreads), 0,
         reinterpret_cast<const int64_t*>(call.words.bytes()), call.result == SumResult::root,
         reinterpret_cast<double*>(call.out.bytes()));
}

}  // namespace hero::cuda

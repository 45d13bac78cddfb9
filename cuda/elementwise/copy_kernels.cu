// Copies on one device: any strides and dtypes, whole vectors, and transposes by way of a tile.
#include <hero/cuda/elementwise/copy_kernels.cuh>
#include <hero/cuda/elementwise/elements.cuh>

namespace hero::cuda {

namespace {

template <class From, class To>
__global__ void __launch_bounds__(kThreads) strided_copy_kernel(const CopyArgs args) {
  const auto* src = reinterpret_cast<const From*>(args.src);
  auto* dst = reinterpret_cast<To*>(args.dst);
  const auto step = static_cast<uint32_t>(grid_threads());
  for (auto i = static_cast<uint32_t>(global_thread()); i < args.walk.count; i += step) {
    int64_t places[2];
    args.walk.at(i, places);
    dst[places[0]] = convert<To>(src[places[1]]);
  }
}

template <class From, class To>
__global__ void __launch_bounds__(kThreads) vector_copy_kernel(const CopyArgs args) {
  constexpr int kVector = copy_vector(kDTypeOf<From>, kDTypeOf<To>);
  const auto* src = reinterpret_cast<const From*>(args.src);
  auto* dst = reinterpret_cast<To*>(args.dst);
  const bool repeats = args.walk.strides[1][args.walk.ndim - 1] == 0;
  const auto step = static_cast<uint32_t>(grid_threads());
  for (auto i = static_cast<uint32_t>(global_thread()); i < args.walk.count; i += step) {
    int64_t places[2];
    args.walk.at(i, places);
    const int64_t have = args.elements - places[0];
    To values[kVector];
    if (repeats) {
      const To one = convert<To>(src[places[1]]);
#pragma unroll
      for (int j = 0; j < kVector; ++j) values[j] = one;
    } else {
      read_vector(src + places[1], have, values);
    }
    write_vector(dst + places[0], have, values);
  }
}

// A tile is read along its columns' memory and written along its rows'; the spare column keeps the
// threads of a warp in different banks either way.
template <class T>
__global__ void __launch_bounds__(kTile* kTileRows) transpose_kernel(const TransposeArgs args) {
  __shared__ T tile[kTile][kTile + 1];
  const auto* src = reinterpret_cast<const T*>(args.src);
  auto* dst = reinterpret_cast<T*>(args.dst);
  const uint32_t down = (args.rows + kTile - 1) / kTile;
  const uint32_t tiles = down * ((args.columns + kTile - 1) / kTile);
  for (uint32_t at = blockIdx.x; at < tiles; at += gridDim.x) {
    const uint32_t column = at / down * kTile, row = at % down * kTile;
    for (uint32_t batch = blockIdx.y; batch < args.walk.count; batch += gridDim.y) {
      int64_t places[2];
      args.walk.at(batch, places);
      const uint32_t from_row = row + threadIdx.x, to_column = column + threadIdx.x;
      for (uint32_t c = threadIdx.y; c < kTile; c += kTileRows) {
        if (from_row < args.rows && column + c < args.columns) {
          tile[c][threadIdx.x] = src[places[1] + from_row + (column + c) * args.src_step];
        }
      }
      __syncthreads();
      for (uint32_t r = threadIdx.y; r < kTile; r += kTileRows) {
        if (row + r < args.rows && to_column < args.columns) {
          dst[places[0] + (row + r) * args.dst_step + to_column] = tile[threadIdx.x][r];
        }
      }
      __syncthreads();
    }
  }
}

template <int From, int... To>
CopyKernel row(bool vector, int to, std::integer_sequence<int, To...>) {
  using Source = Element<static_cast<DType>(From)>;
  static constexpr CopyKernel strided[] = {
      &strided_copy_kernel<Source, Element<static_cast<DType>(To)>>...};
  static constexpr CopyKernel vectors[] = {
      &vector_copy_kernel<Source, Element<static_cast<DType>(To)>>...};
  return vector ? vectors[to] : strided[to];
}

template <int... From>
CopyKernel kernel_of(bool vector, DType from, DType to, std::integer_sequence<int, From...> all) {
  using Row = CopyKernel (*)(bool, int, decltype(all));
  static constexpr Row rows[] = {&row<From>...};
  return rows[static_cast<int>(from)](vector, static_cast<int>(to), all);
}

constexpr std::make_integer_sequence<int, kDTypeCount> kAll;

}  // namespace

CopyKernel strided_copy(DType from, DType to) { return kernel_of(false, from, to, kAll); }
CopyKernel vector_copy(DType from, DType to) { return kernel_of(true, from, to, kAll); }

TransposeKernel transpose_copy(DType dtype) {
  switch (item_size(dtype)) {
    case 1:
      return &transpose_kernel<uint8_t>;
    case 2:
      return &transpose_kernel<uint16_t>;
    case 4:
      return &transpose_kernel<uint32_t>;
    default:
      return &transpose_kernel<uint64_t>;
  }
}

}  // namespace hero::cuda

// Normalisation of rows, forward. A row that fits the registers of its team (a warp, a block) is
// read once; a longer one three times, mostly from the cache.
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/nn/normalize.cuh>

namespace hero::cuda {

namespace {

// What a row is multiplied and shifted by; null where there is none. For halves, mean and scale are
// float.
template <class E>
struct Norm {
  const E *weight, *bias;
  RowsBeside<E> residual;
  E* sum;
  Compute<E>*mean, *scale;
  Compute<E> eps;
  bool centered;
};

// Elements at.. of the row that begins at `start`, 0 behind its end; with a residual they are the
// sum, stored and rounded as it is.
template <class E>
__device__ RowPack<E> load_row(const Norm<E>& norm, const E* x, int64_t start, int64_t at,
                               int64_t n, bool whole) {
  using A = Compute<E>;
  RowPack<E> pack = load_pack(x + start, at, n, whole, convert<E>(A(0)));
  if (norm.residual.bytes == nullptr) return pack;
  A residual[kRowPack<E>];
  norm.residual.load(residual, start, at, n, whole);
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) {
    pack.value[j] = convert<E>(convert<A>(pack.value[j]) + residual[j]);
  }
  if (at < n) store_pack(pack, norm.sum + start, at, n, whole);
  return pack;
}

template <class E>
__device__ Compute<E> mean_of(const Norm<E>& norm, Team team, Compute<E> sum, int64_t n) {
  return norm.centered ? team.reduce(sum, SumJoin()) * (Compute<E>(1) / static_cast<Compute<E>>(n))
                       : Compute<E>(0);
}

template <class E>
__device__ Compute<E> scale_of(const Norm<E>& norm, Team team, Compute<E> squares, int64_t n) {
  using A = Compute<E>;
  return A(1) / math::sqrt(team.reduce(squares, SumJoin()) * (A(1) / static_cast<A>(n)) + norm.eps);
}

// (x - mean) scale weight + bias, elements at.. of a row; `whole`: the parameters fit packs.
template <class E>
__device__ RowPack<E> normalized(const Norm<E>& norm, RowPack<E> pack, Compute<E> mean,
                                 Compute<E> scale, int64_t at, int64_t n, bool whole) {
  using A = Compute<E>;
  A value[kRowPack<E>];
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) value[j] = (convert<A>(pack.value[j]) - mean) * scale;
  if (norm.weight != nullptr) {
    const RowPack<E> weight = load_pack(norm.weight, at, n, whole);
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) value[j] *= convert<A>(weight.value[j]);
  }
  if (norm.bias != nullptr) {
    const RowPack<E> bias = load_pack(norm.bias, at, n, whole);
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) value[j] += convert<A>(bias.value[j]);
  }
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) pack.value[j] = convert<E>(value[j]);
  return pack;
}

template <class E>
__device__ Compute<E> sum_of(const RowPack<E>& pack) {
  Compute<E> sum = convert<Compute<E>>(pack.value[0]);
#pragma unroll
  for (int j = 1; j < kRowPack<E>; ++j) sum += convert<Compute<E>>(pack.value[j]);
  return sum;
}

template <class E>
__device__ Compute<E> squares_of(const RowPack<E>& pack, Compute<E> mean, int64_t at, int64_t n) {
  using A = Compute<E>;
  A sum = A(0);
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) {
    const A centered = convert<A>(pack.value[j]) - mean;
    if (at + j < n) sum += centered * centered;
  }
  return sum;
}

template <class E, int kHeld>
__global__ void __launch_bounds__(1024)
    normalize_held_kernel(const E* x, E* out, const Norm<E> norm, const RowsOfNorm shape) {
  using A = Compute<E>;
  const Team team = shape.team;
  const int64_t row = team.index(), n = row < shape.rows ? shape.n : 0;
  const int64_t step = int64_t{team.width} * kRowPack<E>,
                first = int64_t{team.rank()} * kRowPack<E>;
  const int64_t start = n > 0 ? row * n : 0;
  RowPack<E> held[kHeld];
  A sum = A(0), squares = A(0);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    held[k] = load_row(norm, x, start, first + k * step, n, shape.whole);
    sum += sum_of(held[k]);
  }
  const A mean = mean_of(norm, team, sum, shape.n);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) squares += squares_of(held[k], mean, first + k * step, n);
  const A scale = scale_of(norm, team, squares, shape.n);
  if (n == 0) return;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int64_t at = first + k * step;
    if (at >= n) continue;
    const RowPack<E> result = normalized(norm, held[k], mean, scale, at, n, shape.whole_parameters);
    store_pack(result, out + start, at, n, shape.whole);
  }
  if (team.rank() == 0) {
    norm.mean[row] = mean;
    norm.scale[row] = scale;
  }
}

// A block a row.
template <class E>
__global__ void __launch_bounds__(1024)
    normalize_long_kernel(const E* x, E* out, const Norm<E> norm, const RowsOfNorm shape) {
  using A = Compute<E>;
  const Team team = shape.team;
  const int64_t row = team.index(), n = shape.n;
  const int64_t step = int64_t{team.width} * kRowPack<E>,
                first = int64_t{team.rank()} * kRowPack<E>;
  A sum = A(0), squares = A(0);
  for (int64_t at = first; at < n; at += step) {
    sum += sum_of(load_row(norm, x, row * n, at, n, shape.whole));
  }
  // A thread finds here what it has written itself.
  const E* from = (norm.sum != nullptr ? norm.sum : x) + row * n;
  const A mean = mean_of(norm, team, sum, n);
  for (int64_t at = first; at < n; at += step) {
    squares += squares_of(load_pack(from, at, n, shape.whole), mean, at, n);
  }
  const A scale = scale_of(norm, team, squares, n);
  for (int64_t at = first; at < n; at += step) {
    const RowPack<E> pack = load_pack(from, at, n, shape.whole);
    store_pack(normalized(norm, pack, mean, scale, at, n, shape.whole_parameters), out + row * n,
               at, n, shape.whole);
  }
  if (team.rank() == 0) {
    norm.mean[row] = mean;
    norm.scale[row] = scale;
  }
}

template <class E>
void forward(const RowNorm& given, const Array& x, const Array& out, const Array& mean,
             const Array& scale) {
  using A = Compute<E>;
  const Norm<E> norm{elements_or_null<E>(given.weight),
                     elements_or_null<E>(given.bias),
                     RowsBeside<E>(given.residual),
                     given.sum != nullptr ? reinterpret_cast<E*>(given.sum->bytes()) : nullptr,
                     reinterpret_cast<A*>(mean.bytes()),
                     reinterpret_cast<A*>(scale.bytes()),
                     static_cast<A>(given.eps),
                     given.centered};
  const int64_t rows = x.shape()[0], n = x.shape()[1];
  RowsOfNorm shape{rows,
                   n,
                   {1},
                   all_fit<E>(n, {&x, &out, given.residual, given.sum}),
                   all_fit<E>(n, {given.weight, given.bias})};
  constexpr int kMostHeld = sizeof(E) == 2 ? 2 : 4;  // more would not fit 64 registers
  const bool small = n <= kWarp * kRowPack<E>;
  shape.team.width =
      small ? team_width<E>(n, 1, kWarp) : std::max(kWarp, team_width<E>(n, kMostHeld, 1024));
  const bool fits = n <= int64_t{shape.team.width} * kMostHeld * kRowPack<E>;
  const auto kernel = small
                          ? normalize_held_kernel<E, 1>
                          : (fits ? normalize_held_kernel<E, kMostHeld> : normalize_long_kernel<E>);
  launch(given.centered ? "layer_norm" : "rms_norm", kernel, team_blocks(rows, shape.team.width),
         dim3(static_cast<unsigned>(team_threads(shape.team.width))), 0,
         reinterpret_cast<const E*>(x.bytes()), reinterpret_cast<E*>(out.bytes()), norm, shape);
}

}  // namespace

void CudaBackend::normalize_rows(const RowNorm& norm, const Array& x, const Array& out,
                                 const Array& mean, const Array& scale) {
  if (x.numel() == 0) return;
  const DeviceGuard guard(index_);
  dispatch_floats(x.dtype(), [&]<class E>(TypeTag<E>) { forward<E>(norm, x, out, mean, scale); });
}

}  // namespace hero::cuda

// Normalisation of rows, forward. A row that fits the registers of its team (a warp, a block) is
// read once; a longer one three times, mostly from the cache.
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/nn/layer_norm.cuh>

namespace hero::cuda {

namespace {

// What a row is multiplied and shifted by; null where there is none. For halves, mean and scale are
// float. Beside float32, the rows of residual and out may be of a half's dtype.
template <class E>
struct Norm {
  const E *weight, *bias;
  RowsBeside<E> residual;
  E* sum;
  RowsBeside<E> out;
  Compute<E>*mean, *scale;
  Compute<E> eps;
  bool centered;
};

template <class E>
__device__ E zero() {
  return convert<E>(Compute<E>(0));
}

// Packs of x's row that begins at `start`, 0 behind its end; with a residual they are the sum,
// stored and rounded as it is.
template <class E, int kHeld>
__device__ void load_row(RowPack<E> (&packs)[kHeld], const Norm<E>& norm, const E* x, int64_t start,
                         int64_t at, int64_t step, int64_t n, bool whole) {
  using A = Compute<E>;
  load_packs(packs, x + start, at, step, n, whole, zero<E>());
  if (norm.residual.bytes == nullptr) return;
  RowPack<E> beside[kHeld];
  norm.residual.load(beside, start, at, step, n, whole);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    A residual[kRowPack<E>];
    norm.residual.unpack(beside[k], residual);
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) {
      packs[k].value[j] = convert<E>(convert<A>(packs[k].value[j]) + residual[j]);
    }
  }
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    if (at + k * step < n) store_pack(packs[k], norm.sum + start, at + k * step, n, whole);
  }
}

template <class E>
__device__ Compute<E> mean_of(const Norm<E>& norm, RowTeam team, Compute<E> sum, int64_t n) {
  using A = Compute<E>;
  return norm.centered ? team.reduce(sum, SumJoin(), A(0), 0) * (A(1) / static_cast<A>(n)) : A(0);
}

template <class E>
__device__ Compute<E> scale_of(const Norm<E>& norm, RowTeam team, Compute<E> squares, int64_t n) {
  using A = Compute<E>;
  const A total = team.reduce(squares, SumJoin(), A(0), 1);
  return A(1) / math::sqrt(total * (A(1) / static_cast<A>(n)) + norm.eps);
}

// (x - mean) scale weight + bias of a pack.
template <class E>
__device__ RowPack<E> normalized(const Norm<E>& norm, RowPack<E> pack, const RowPack<E>& weight,
                                 const RowPack<E>& bias, Compute<E> mean, Compute<E> scale) {
  using A = Compute<E>;
  A value[kRowPack<E>];
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) value[j] = (convert<A>(pack.value[j]) - mean) * scale;
  if (norm.weight != nullptr) {
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) value[j] *= convert<A>(weight.value[j]);
  }
  if (norm.bias != nullptr) {
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

// `have`: elements before the row's end.
template <class E>
__device__ Compute<E> squares_of(const RowPack<E>& pack, Compute<E> mean, int64_t have) {
  using A = Compute<E>;
  A sum = A(0);
  if (have <= 0) return sum;
  const int count = have < kRowPack<E> ? static_cast<int>(have) : kRowPack<E>;
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) {
    const A centered = convert<A>(pack.value[j]) - mean;
    if (j < count) sum += centered * centered;
  }
  return sum;
}

template <class E, int kHeld, int kMostThreads>
__global__ void __launch_bounds__(kMostThreads)
    normalize_held_kernel(const E* x, const Norm<E> norm, const RowsOfNorm shape) {
  using A = Compute<E>;
  const RowTeam team = shape.team;
  const int64_t row = team.index(), n = row < shape.rows ? shape.n : 0;
  const int64_t step = int64_t{team.width} * kRowPack<E>,
                first = int64_t{team.rank()} * kRowPack<E>;
  const int64_t start = n > 0 ? row * n : 0;
  RowPack<E> held[kHeld], weight[kHeld], bias[kHeld];
  load_row(held, norm, x, start, first, step, n, shape.whole);
  A sum = A(0), squares = A(0);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) sum += sum_of(held[k]);
  const A mean = mean_of(norm, team, sum, shape.n);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) squares += squares_of(held[k], mean, n - (first + k * step));
  // Before the last sum, which hides their way.
  if (norm.weight != nullptr) {
    load_packs(weight, norm.weight, first, step, n, shape.whole_parameters, zero<E>());
  }
  if (norm.bias != nullptr) {
    load_packs(bias, norm.bias, first, step, n, shape.whole_parameters, zero<E>());
  }
  const A scale = scale_of(norm, team, squares, shape.n);
  if (n == 0) return;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int64_t at = first + k * step;
    if (at >= n) continue;
    norm.out.store(normalized(norm, held[k], weight[k], bias[k], mean, scale), start, at, n,
                   shape.whole);
  }
  if (team.rank() == 0) {
    norm.mean[row] = mean;
    norm.scale[row] = scale;
  }
}

// A block a row.
template <class E>
__global__ void __launch_bounds__(1024)
    normalize_long_kernel(const E* x, const Norm<E> norm, const RowsOfNorm shape) {
  using A = Compute<E>;
  const RowTeam team = shape.team;
  const int64_t row = team.index(), n = shape.n;
  const int64_t step = int64_t{team.width} * kRowPack<E>,
                first = int64_t{team.rank()} * kRowPack<E>;
  RowPack<E> pack[1], weight[1], bias[1];
  A sum = A(0), squares = A(0);
  for (int64_t at = first; at < n; at += step) {
    load_row(pack, norm, x, row * n, at, step, n, shape.whole);
    sum += sum_of(pack[0]);
  }
  // A thread finds here what it has written itself.
  const E* from = (norm.sum != nullptr ? norm.sum : x) + row * n;
  const A mean = mean_of(norm, team, sum, n);
  for (int64_t at = first; at < n; at += step) {
    squares += squares_of(load_pack(from, at, n, shape.whole), mean, n - at);
  }
  const A scale = scale_of(norm, team, squares, n);
  for (int64_t at = first; at < n; at += step) {
    pack[0] = load_pack(from, at, n, shape.whole);
    if (norm.weight != nullptr) {
      weight[0] = load_pack(norm.weight, at, n, shape.whole_parameters);
    }
    if (norm.bias != nullptr) bias[0] = load_pack(norm.bias, at, n, shape.whole_parameters);
    norm.out.store(normalized(norm, pack[0], weight[0], bias[0], mean, scale), row * n, at, n,
                   shape.whole);
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
                     RowsBeside<E>(&out),
                     reinterpret_cast<A*>(mean.bytes()),
                     reinterpret_cast<A*>(scale.bytes()),
                     static_cast<A>(given.eps),
                     given.centered};
  const int64_t rows = x.shape()[0], n = x.shape()[1];
  const RowPlan plan = plan_row<E>(n);
  const RowsOfNorm shape{rows, n, plan.team, all_fit<E>(n, {&x, &out, given.residual, given.sum}),
                         all_fit<E>(n, {given.weight, given.bias})};
  const auto start = [&](auto* kernel) {
    launch(given.centered ? "layer_norm" : "rms_norm", kernel, plan.blocks(rows), plan.threads(), 0,
           reinterpret_cast<const E*>(x.bytes()), norm, shape);
  };
  if (plan.held == 0) return start(normalize_long_kernel<E>);
  dispatch_held<E>(plan, [&]<int kHeld, int kMostThreads>() {
    start(normalize_held_kernel<E, kHeld, kMostThreads>);
  });
}

}  // namespace

void CudaBackend::run(const call::NormalizeRows& call) {
  if (call.x.numel() == 0) return;
  const DeviceGuard guard(index_);
  dispatch_floats(call.x.dtype(), [&]<class E>(TypeTag<E>) {
    forward<E>(call.norm, call.x, call.out, call.mean, call.scale);
  });
}

}  // namespace hero::cuda

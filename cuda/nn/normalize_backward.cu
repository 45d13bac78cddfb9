// Normalisation of rows, backward: one read of g and x gives the gradient of x and, in each team's
// registers, its share of those of weight and bias. Shares are joined by block through memory, then
// over all blocks by a reduction; how many blocks there are depends on the shape alone.
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/nn/normalize.cuh>
#include <hero/cuda/reduce/reduce.cuh>

namespace hero::cuda {

namespace {

// Arrays of a backward pass; partial [blocks, 2, n] has the blocks' shares, null where nobody wants
// them.
template <class E>
struct NormBack {
  const E *g, *x, *weight, *g_sum;
  const Compute<E>*mean, *scale;
  E* g_x;
  RowsBeside<E> g_residual;
  Compute<E>* partial;
  bool centered;
};

// The weighted gradient of one element.
template <class E>
__device__ Compute<E> weighted(Compute<E> g, const RowPack<E>& weight, int j, bool has_weight) {
  return has_weight ? g * convert<Compute<E>>(weight.value[j]) : g;
}

// {sum of g weight x_hat, sum of g weight} over a pack.
template <class E>
__device__ void add_sums(TwoSums<Compute<E>>& sums, const RowPack<E>& g, const RowPack<E>& x,
                         const RowPack<E>& weight, bool has_weight, Compute<E> mean,
                         Compute<E> scale) {
  using A = Compute<E>;
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) {
    const A along = weighted<E>(convert<A>(g.value[j]), weight, j, has_weight);
    sums.first += along * ((convert<A>(x.value[j]) - mean) * scale);
    sums.second += along;
  }
}

// Stores elements at.. of the gradient of x's row that begins at `start`; returns them.
template <class E>
__device__ RowPack<E> store_gradient(const NormBack<E>& back, const RowPack<E>& g,
                                     const RowPack<E>& x, const RowPack<E>& weight, Compute<E> mean,
                                     Compute<E> scale, const TwoSums<Compute<E>>& shares,
                                     int64_t start, int64_t at, int64_t n, bool whole) {
  using A = Compute<E>;
  A value[kRowPack<E>];
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) {
    const A along = weighted<E>(convert<A>(g.value[j]), weight, j, back.weight != nullptr);
    const A x_hat = (convert<A>(x.value[j]) - mean) * scale;
    value[j] = (along - shares.second - x_hat * shares.first) * scale;
  }
  if (back.g_sum != nullptr) {
    // Rounded before it is joined, as where sum and norm are two operations: between units of FSDP
    // they must be, and all rungs have the same bits.
    const RowPack<E> g_sum = load_pack(back.g_sum + start, at, n, whole);
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) {
      value[j] = convert<A>(convert<E>(value[j])) + convert<A>(g_sum.value[j]);
    }
  }
  RowPack<E> result;
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) result.value[j] = convert<E>(value[j]);
  store_pack(result, back.g_x + start, at, n, whole);
  return result;
}

template <class A>
__device__ TwoSums<A> shares_of(const TwoSums<A>& sums, int64_t n, bool centered) {
  const A share = A(1) / static_cast<A>(n);
  return {sums.first * share, centered ? sums.second * share : A(0)};
}

// The teams' sums over rows, of one pack of columns a thread, joined in order and stored as the
// block's. Teams are warps or the whole block.
template <class E>
__device__ void store_share(const Compute<E> (&sum)[kRowPack<E>], Team team, int64_t at, int64_t n,
                            Compute<E>* to) {
  using A = Compute<E>;
  if (team.width > kWarp) {
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) {
      if (at + j < n) to[at + j] = sum[j];
    }
    return;
  }
  __shared__ A parts[kRowPack<E>][kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) parts[j][thread] = sum[j];
  __syncthreads();
  const int j = thread / kWarp, lane = thread % kWarp;
  const int64_t column = at + j;  // this thread's lane and another's column of the pack
  if (j >= kRowPack<E> || column >= n) return;
  A total = parts[j][lane];
  for (int w = 1; w < kThreads / kWarp; ++w) total += parts[j][w * kWarp + lane];
  to[column] = total;
}

template <class E, int kHeld>
__global__ void __launch_bounds__(512)
    normalize_backward_kernel(const NormBack<E> back, const RowsOfNorm shape) {
  using A = Compute<E>;
  const Team team = shape.team;
  const int64_t n = shape.n, teams = grid_threads() / team.width;
  const int64_t step = int64_t{team.width} * kRowPack<E>,
                first = int64_t{team.rank()} * kRowPack<E>;
  const bool has_weight = back.weight != nullptr;
  RowPack<E> weight[kHeld];
  A of_weight[kHeld][kRowPack<E>] = {}, of_bias[kHeld][kRowPack<E>] = {};
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    if (has_weight) weight[k] = load_pack(back.weight, first + k * step, n, shape.whole_parameters);
  }
  // Every thread of a team comes as often: a team's row is there or not.
  for (int64_t row = team.index(); row < shape.rows; row += teams) {
    const E *row_g = back.g + row * n, *row_x = back.x + row * n;
    const A mean = back.mean[row], scale = back.scale[row];
    RowPack<E> g[kHeld], x[kHeld];
    TwoSums<A> sums{};
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      // g is 0 behind the row's end, and with it all sums.
      g[k] = load_pack(row_g, first + k * step, n, shape.whole, convert<E>(A(0)));
      x[k] = load_pack(row_x, first + k * step, n, shape.whole, convert<E>(A(0)));
    }
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      add_sums(sums, g[k], x[k], weight[k], has_weight, mean, scale);
    }
    const TwoSums<A> shares = shares_of(team.reduce(sums, TwoSumsJoin()), n, back.centered);
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
#pragma unroll
      for (int j = 0; j < kRowPack<E>; ++j) {
        const A g_of = convert<A>(g[k].value[j]);
        of_weight[k][j] += g_of * ((convert<A>(x[k].value[j]) - mean) * scale);
        of_bias[k][j] += g_of;
      }
      const int64_t at = first + k * step;
      if (at < n) {
        g[k] = store_gradient(back, g[k], x[k], weight[k], mean, scale, shares, row * n, at, n,
                              shape.whole);
      }
    }
    // Registers would not hold several packs of g_x until here; a thread finds in memory what it
    // has written itself.
    if (back.g_residual.bytes == nullptr) continue;
#pragma unroll 1
    for (int64_t at = first; at < n; at += step) {
      const RowPack<E> g_x = kHeld == 1 ? g[0] : load_pack(back.g_x + row * n, at, n, shape.whole);
      back.g_residual.store(g_x, row * n, at, n, shape.whole);
    }
  }
  if (back.partial == nullptr) return;
  A* to = back.partial + int64_t{blockIdx.x} * 2 * n;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    store_share<E>(of_weight[k], team, first + k * step, n, to);
    store_share<E>(of_bias[k], team, first + k * step, n, to + n);
  }
}

// A block a row, for rows that fit no registers.
template <class E>
__global__ void __launch_bounds__(1024)
    normalize_backward_long_kernel(const NormBack<E> back, const RowsOfNorm shape) {
  using A = Compute<E>;
  const Team team = shape.team;
  const int64_t n = shape.n, row = team.index();
  const int64_t step = int64_t{team.width} * kRowPack<E>,
                first = int64_t{team.rank()} * kRowPack<E>;
  const bool has_weight = back.weight != nullptr;
  const E *row_g = back.g + row * n, *row_x = back.x + row * n;
  const A mean = back.mean[row], scale = back.scale[row];
  RowPack<E> weight{};
  TwoSums<A> sums{};
  for (int64_t at = first; at < n; at += step) {
    if (has_weight)
      weight = load_pack(back.weight, at, n, shape.whole_parameters, convert<E>(A(0)));
    add_sums(sums, load_pack(row_g, at, n, shape.whole, convert<E>(A(0))),
             load_pack(row_x, at, n, shape.whole, convert<E>(A(0))), weight, has_weight, mean,
             scale);
  }
  const TwoSums<A> shares = shares_of(team.reduce(sums, TwoSumsJoin()), n, back.centered);
  for (int64_t at = first; at < n; at += step) {
    if (has_weight)
      weight = load_pack(back.weight, at, n, shape.whole_parameters, convert<E>(A(0)));
    const RowPack<E> g_x = store_gradient(back, load_pack(row_g, at, n, shape.whole),
                                          load_pack(row_x, at, n, shape.whole), weight, mean, scale,
                                          shares, row * n, at, n, shape.whole);
    if (back.g_residual.bytes != nullptr) {
      back.g_residual.store(g_x, row * n, at, n, shape.whole);
    }
  }
}

// The shares of weight and bias of long rows: a column a thread, a strip of rows a block along y.
template <class E>
__global__ void normalize_parameters_kernel(const NormBack<E> back, int64_t rows, int64_t n,
                                            int64_t height) {
  using A = Compute<E>;
  const int64_t column = global_thread(), begin = blockIdx.y * height;
  if (column >= n) return;
  A of_weight = A(0), of_bias = A(0);
  for (int64_t row = begin; row < begin + height && row < rows; ++row) {
    const A g = convert<A>(back.g[row * n + column]);
    of_weight += g * ((convert<A>(back.x[row * n + column]) - back.mean[row]) * back.scale[row]);
    of_bias += g;
  }
  A* to = back.partial + int64_t{blockIdx.y} * 2 * n;
  to[column] = of_weight;
  to[n + column] = of_bias;
}

// out [n] = the sum of the blocks' shares.
template <class A>
void join_shares(const Array& partial, int64_t of, const Array* out) {
  if (out == nullptr) return;
  const int64_t blocks = partial.shape()[0], n = partial.shape()[2];
  const Reduction r{"normalize_rows_backward",
                    reinterpret_cast<const A*>(partial.bytes()) + of * n,
                    Layout({n}, {1}),
                    Layout({blocks}, {2 * n}),
                    n,
                    blocks,
                    partial.device()};
  reduce_as<SumOf, A, A>(r, nullptr, *out);
}

// How a backward pass is shared out: packs a thread holds (0: none, the row is long), its team, and
// blocks that each keep one share of the parameters' gradients.
struct Plan {
  int held;
  int width;
  int64_t blocks;
};
// More halves would not fit a thread's registers.
template <class E>
constexpr int kMostHeld = sizeof(E) == 2 ? 2 : 4;

template <class E>
Plan plan_for(int64_t rows, int64_t n) {
  constexpr int64_t kTeams = kThreads / kWarp;
  if (n <= kMostHeld<E> * kWarp * kRowPack<E>) {  // a warp a row, two blocks a multiprocessor
    return {n <= kWarp * kRowPack<E> ? 1 : kMostHeld<E>, kWarp,
            std::min(ceil_div(rows, kTeams), int64_t{264})};
  }
  if (n > kMostHeld<E> * 512 * kRowPack<E>)
    return {0, 1024, std::min(ceil_div(rows, 64), int64_t{64})};
  const bool one = n <= 512 * kRowPack<E>;
  const int width = one ? team_width<E>(n, 1, 512) : 512;
  return {one ? 1 : kMostHeld<E>, width, std::min<int64_t>(rows, 132 * (1024 / width))};
}

template <class E>
void backward(const RowNorm& norm, const Array& g, const Array& x, const Array& mean,
              const Array& scale, const Array& g_x, const Array* g_weight, const Array* g_bias) {
  using A = Compute<E>;
  constexpr const char* kOp = "normalize_rows_backward";
  const int64_t rows = x.shape()[0], n = x.shape()[1];
  const Plan plan = plan_for<E>(rows, n);
  Array partial;
  if (g_weight != nullptr || g_bias != nullptr) {
    partial = Array::empty({plan.blocks, 2, n}, kDTypeOf<A>, x.device());
  }
  const NormBack<E> back{reinterpret_cast<const E*>(g.bytes()),
                         reinterpret_cast<const E*>(x.bytes()),
                         elements_or_null<E>(norm.weight),
                         elements_or_null<E>(norm.g_sum),
                         reinterpret_cast<const A*>(mean.bytes()),
                         reinterpret_cast<const A*>(scale.bytes()),
                         reinterpret_cast<E*>(g_x.bytes()),
                         RowsBeside<E>(norm.g_residual),
                         partial.defined() ? reinterpret_cast<A*>(partial.bytes()) : nullptr,
                         norm.centered};
  const RowsOfNorm shape{rows,
                         n,
                         {plan.width},
                         all_fit<E>(n, {&g, &x, &g_x, norm.g_sum, norm.g_residual}),
                         all_fit<E>(n, {norm.weight})};
  const dim3 threads(static_cast<unsigned>(team_threads(plan.width)));
  if (plan.held > 0) {
    launch(kOp,
           plan.held == 1 ? normalize_backward_kernel<E, 1>
                          : normalize_backward_kernel<E, kMostHeld<E>>,
           dim3(static_cast<unsigned>(plan.blocks)), threads, 0, back, shape);
  } else {
    if (partial.defined()) {  // first: g_x may be g or x
      dim3 grid = blocks_for(n);
      grid.y = static_cast<unsigned>(plan.blocks);
      launch(kOp, normalize_parameters_kernel<E>, grid, dim3(kThreads), 0, back, rows, n,
             ceil_div(rows, plan.blocks));
    }
    launch(kOp, normalize_backward_long_kernel<E>, team_blocks(rows, plan.width), threads, 0, back,
           shape);
  }
  join_shares<A>(partial, 0, g_weight);
  join_shares<A>(partial, 1, g_bias);
}

}  // namespace

void CudaBackend::normalize_rows_backward(const RowNorm& norm, const Array& g, const Array& x,
                                          const Array& mean, const Array& scale, const Array& g_x,
                                          const Array* g_weight, const Array* g_bias) {
  const DeviceGuard guard(index_);
  if (x.numel() == 0) {
    if (g_weight != nullptr) fill(*g_weight, 0);
    if (g_bias != nullptr) fill(*g_bias, 0);
    return;
  }
  dispatch_floats(x.dtype(), [&]<class E>(TypeTag<E>) {
    backward<E>(norm, g, x, mean, scale, g_x, g_weight, g_bias);
  });
}

}  // namespace hero::cuda

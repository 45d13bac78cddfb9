// Normalisation of rows, backward: one read of g and x gives the gradient of x and, in each team's
// registers, its share of those of weight and bias. The shares are added up in each block through
// memory, then over all blocks by a reduction; the number of blocks depends on the shape alone.
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/nn/layer_norm.cuh>
#include <hero/cuda/reduce/reduce.cuh>

namespace hero::cuda {

namespace {

// Arrays of a backward pass; partial [blocks, 2, n] has the blocks' shares, null where nobody wants
// them.
template <class E>
struct NormBack {
  RowsBeside<E> g;
  const E *x, *weight, *g_sum;
  const Compute<E>*mean, *scale;
  E* g_x;
  RowsBeside<E> g_residual;
  Compute<E>* partial;
  bool centered;
};

// A row as it lies in memory: what is asked for at once. g_sum is set where there is one.
template <class E, int kHeld>
struct RowInMemory {
  RowPack<E> g[kHeld], x[kHeld], g_sum[kHeld];
  Compute<E> mean, scale;

  __device__ void load(const NormBack<E>& back, int64_t row, int64_t at, int64_t step, int64_t n,
                       bool whole) {
    const E none = convert<E>(Compute<E>(0));
    mean = back.mean[row];
    scale = back.scale[row];
    back.g.load(g, row * n, at, step, n, whole);
    load_packs(x, back.x + row * n, at, step, n, whole, none);
    if (back.g_sum != nullptr) load_packs(g_sum, back.g_sum + row * n, at, step, n, whole, none);
  }
};

// {sum of g weight x_hat, sum of g weight} over a pack; with kShares each element's g x_hat and g
// are added to the thread's shares of the parameters' gradients. g is 0 behind the row's end, and
// with it all sums.
template <bool kShares, class E>
__device__ void add_sums(TwoSums<Compute<E>>& sums, const Compute<E> (&g)[kRowPack<E>],
                         const RowPack<E>& x, const RowPack<E>& weight, bool has_weight,
                         Compute<E> mean, Compute<E> scale, Compute<E> (&of_weight)[kRowPack<E>],
                         Compute<E> (&of_bias)[kRowPack<E>]) {
  using A = Compute<E>;
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) {
    const A x_hat = (convert<A>(x.value[j]) - mean) * scale;
    const A along = has_weight ? g[j] * convert<A>(weight.value[j]) : g[j];
    sums.first += along * x_hat;
    sums.second += along;
    if (kShares) {
      of_weight[j] += g[j] * x_hat;
      of_bias[j] += g[j];
    }
  }
}

// Stores elements at.. of the gradient of x's row that begins at `start`.
template <class E>
__device__ void store_gradient(const NormBack<E>& back, const RowPack<E>& g_pack,
                               const RowPack<E>& x, const RowPack<E>& g_sum,
                               const RowPack<E>& weight, Compute<E> mean, Compute<E> scale,
                               const TwoSums<Compute<E>>& shares, int64_t start, int64_t at,
                               int64_t n, bool whole) {
  using A = Compute<E>;
  A g[kRowPack<E>];
  back.g.unpack(g_pack, g);
  RowPack<E> result;
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) {
    const A along = back.weight != nullptr ? g[j] * convert<A>(weight.value[j]) : g[j];
    const A x_hat = (convert<A>(x.value[j]) - mean) * scale;
    result.value[j] = convert<E>((along - shares.second - x_hat * shares.first) * scale);
  }
  if (back.g_sum != nullptr) {
    // Rounded before it is joined, as where sum and norm are two operations: between units of FSDP
    // they must be, and all strategies have the same bits.
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) {
      result.value[j] = convert<E>(convert<A>(result.value[j]) + convert<A>(g_sum.value[j]));
    }
  }
  store_pack(result, back.g_x + start, at, n, whole);
  if (back.g_residual.bytes != nullptr) back.g_residual.store(result, start, at, n, whole);
}

template <class A>
__device__ TwoSums<A> shares_of(const TwoSums<A>& sums, int64_t n, bool centered) {
  const A share = A(1) / static_cast<A>(n);
  return {sums.first * share, centered ? sums.second * share : A(0)};
}

// The teams' sums over rows, of one pack of columns a thread, joined in order and stored as the
// block's. Teams are warps or the whole block.
template <class E>
__device__ void store_share(const Compute<E> (&sum)[kRowPack<E>], RowTeam team, int64_t at,
                            int64_t n, Compute<E>* to) {
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

// Threads that a multiprocessor's registers have room for. With one pack a thread a row comes from
// memory while the one before is summed.
template <class E, int kHeld>
constexpr int kMostOfBlock = kHeld > 1 ? 384 : (sizeof(E) == 2 ? 512 : 768);

template <class E, int kHeld>
__global__ void __launch_bounds__(kMostOfBlock<E, kHeld>)
    normalize_backward_kernel(const NormBack<E> back, const RowsOfNorm shape) {
  using A = Compute<E>;
  const RowTeam team = shape.team;
  const int64_t n = shape.n, teams = team.count();
  const int64_t step = int64_t{team.width} * kRowPack<E>,
                first = int64_t{team.rank()} * kRowPack<E>;
  const bool has_weight = back.weight != nullptr;
  RowPack<E> weight[kHeld];
  A of_weight[kHeld][kRowPack<E>] = {}, of_bias[kHeld][kRowPack<E>] = {};
  if (has_weight) load_packs(weight, back.weight, first, step, n, shape.whole_parameters);
  RowInMemory<E, kHeld> next;
  int64_t row = team.index();
  if (kHeld == 1 && row < shape.rows) next.load(back, row, first, step, n, shape.whole);
  // Every thread of a team comes as often: a team's row is there or not.
  for (int turn = 0; row < shape.rows; row += teams, turn ^= 1) {
    if (kHeld > 1) next.load(back, row, first, step, n, shape.whole);
    const RowInMemory<E, kHeld> mine = next;
    if (kHeld == 1 && row + teams < shape.rows) {
      next.load(back, row + teams, first, step, n, shape.whole);
    }
    TwoSums<A> sums{};
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      A g[kRowPack<E>];
      back.g.unpack(mine.g[k], g);
      add_sums<true, E>(sums, g, mine.x[k], weight[k], has_weight, mine.mean, mine.scale,
                        of_weight[k], of_bias[k]);
    }
    sums = team.reduce(sums, TwoSumsJoin(), TwoSums<A>{}, turn);
    const TwoSums<A> shares = shares_of(sums, n, back.centered);
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const int64_t at = first + k * step;
      if (at >= n) continue;
      store_gradient(back, mine.g[k], mine.x[k], mine.g_sum[k], weight[k], mine.mean, mine.scale,
                     shares, row * n, at, n, shape.whole);
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
  const RowTeam team = shape.team;
  const int64_t n = shape.n, row = team.index();
  const int64_t step = int64_t{team.width} * kRowPack<E>,
                first = int64_t{team.rank()} * kRowPack<E>;
  const bool has_weight = back.weight != nullptr;
  RowInMemory<E, 1> mine;
  RowPack<E> weight[1];
  A unused[kRowPack<E>];
  TwoSums<A> sums{};
  const auto load = [&](int64_t at) {
    mine.load(back, row, at, step, n, shape.whole);
    if (has_weight) load_packs(weight, back.weight, at, step, n, shape.whole_parameters);
  };
  for (int64_t at = first; at < n; at += step) {
    load(at);
    A g[kRowPack<E>];
    back.g.unpack(mine.g[0], g);
    add_sums<false, E>(sums, g, mine.x[0], weight[0], has_weight, mine.mean, mine.scale, unused,
                       unused);
  }
  sums = team.reduce(sums, TwoSumsJoin(), TwoSums<A>{}, 0);
  const TwoSums<A> shares = shares_of(sums, n, back.centered);
  for (int64_t at = first; at < n; at += step) {
    load(at);
    store_gradient(back, mine.g[0], mine.x[0], mine.g_sum[0], weight[0], mine.mean, mine.scale,
                   shares, row * n, at, n, shape.whole);
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
    const A g = back.g.at(row * n + column);
    of_weight += g * ((convert<A>(back.x[row * n + column]) - back.mean[row]) * back.scale[row]);
    of_bias += g;
  }
  A* to = back.partial + int64_t{blockIdx.y} * 2 * n;
  to[column] = of_weight;
  to[n + column] = of_bias;
}

// The gradients of weight (blockIdx.y 0) and bias (1): sums of the blocks' shares, a column a lane,
// warps share the blocks.
template <class A>
__global__ void __launch_bounds__(1024)
    join_shares_kernel(const A* partial, int64_t blocks, int64_t n, const Results<A> of_weight,
                       const Results<A> of_bias) {
  __shared__ A parts[kWarp][kWarp + 1];
  const Results<A> results = blockIdx.y == 0 ? of_weight : of_bias;
  if (results.data == nullptr) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t first = int64_t{blockIdx.x} * kWarp, column = first + lane;
  A sum = A(0);
  if (column < n) {
    const A* from = partial + blockIdx.y * n + column;
#pragma unroll 4
    for (int64_t b = warp; b < blocks; b += kWarp) sum += from[b * 2 * n];
  }
  parts[warp][lane] = sum;
  __syncthreads();
  sum = warp_reduce(parts[lane][warp], SumJoin());
  if (lane == 0 && first + warp < n) results.store(first + warp, sum);
}

template <class A>
void join_shares(const Array& partial, const Array* g_weight, const Array* g_bias) {
  const auto results = [](const Array* array) {
    return array != nullptr ? Results<A>{array->bytes(), array->dtype()}
                            : Results<A>{nullptr, kDTypeOf<A>};
  };
  const int64_t blocks = partial.shape()[0], n = partial.shape()[2];
  dim3 grid = blocks_for(n, kWarp);
  grid.y = 2;
  launch("normalize_rows_backward", join_shares_kernel<A>, grid, dim3(kWarp * kWarp), 0,
         reinterpret_cast<const A*>(partial.bytes()), blocks, n, results(g_weight),
         results(g_bias));
}

// How a backward pass is shared out: packs a thread holds (0: none, the row is long), its team, and
// blocks that each keep one share of the parameters' gradients.
struct BlockPlan {
  int held;
  int width;
  int64_t blocks;
};
// More halves would not fit a thread's registers.
template <class E>
constexpr int kMostHeld = sizeof(E) == 2 ? 2 : 4;

// Blocks are as many as the registers of 132 multiprocessors hold at once.
template <class E>
BlockPlan plan_for(int64_t rows, int64_t n) {
  constexpr int64_t kProcessors = 132;
  const int64_t packs = ceil_div(n, kRowPack<E>);
  const int64_t most_of_one = kMostOfBlock<E, 1>;
  const int held = packs <= most_of_one ? 1 : kMostHeld<E>;
  const int64_t most = held == 1 ? most_of_one : kMostOfBlock<E, 2>;
  if (packs > most * held) return {0, 1024, std::min(ceil_div(rows, 64), int64_t{64})};
  const int64_t width = ceil_div(ceil_div(packs, held), kWarp) * kWarp;
  if (width == kWarp) {
    return {held, kWarp, std::min(ceil_div(rows, kThreads / kWarp), kProcessors * most / kThreads)};
  }
  return {held, static_cast<int>(width), std::min(rows, kProcessors * (most / width))};
}

template <class E>
void backward(const RowNorm& norm, const Array& g, const Array& x, const Array& mean,
              const Array& scale, const Array& g_x, const Array* g_weight, const Array* g_bias) {
  using A = Compute<E>;
  constexpr const char* kOp = "normalize_rows_backward";
  const int64_t rows = x.shape()[0], n = x.shape()[1];
  const BlockPlan plan = plan_for<E>(rows, n);
  Array partial;
  if (g_weight != nullptr || g_bias != nullptr) {
    partial = Array::empty({plan.blocks, 2, n}, kDTypeOf<A>, x.device());
  }
  const NormBack<E> back{RowsBeside<E>(&g),
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
  const dim3 threads(static_cast<unsigned>(plan.width > kWarp ? plan.width : kThreads));
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
    launch(kOp, normalize_backward_long_kernel<E>, blocks_for(rows, 1), threads, 0, back, shape);
  }
  if (partial.defined()) join_shares<A>(partial, g_weight, g_bias);
}

}  // namespace

void CudaBackend::run(const call::NormalizeRowsBack& call) {
  const DeviceGuard guard(index_);
  if (call.x.numel() == 0) {
    if (call.g_weight != nullptr) run(call::Fill{*call.g_weight, 0});
    if (call.g_bias != nullptr) run(call::Fill{*call.g_bias, 0});
    return;
  }
  dispatch_floats(call.x.dtype(), [&]<class E>(TypeTag<E>) {
    backward<E>(call.norm, call.g, call.x, call.mean, call.scale, call.g_x, call.g_weight,
                call.g_bias);
  });
}

}  // namespace hero::cuda

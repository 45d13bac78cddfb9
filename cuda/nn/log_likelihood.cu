// The log-probability of one class for each row of logits, and its derivative: each reads the
// logits once, and backward writes once, possibly over the logits. If a row fits the memory of a
// multiprocessor, both together read it once.
#include <bit>

#include <hero/core/kernels/log_sum.h>
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/nn/mma.cuh>
#include <hero/cuda/reduce/lines.cuh>

namespace hero::cuda {

namespace {

// Packs that one thread takes at a time; more doubles would not fit its registers.
template <class E>
constexpr int kAtOnce = sizeof(E) == 8 ? 1 : 2;
constexpr int kMostThreads = 512;  // of a row

template <class E>
struct Packs {
  RowPack<E> at[kAtOnce<E>];
};

// Those that begin `step` elements apart; behind the end of the row all are `none`.
template <class E>
__device__ Packs<E> load_packs(const E* row, int64_t first, int64_t step, int64_t n, bool whole,
                               E none) {
  Packs<E> packs;
#pragma unroll
  for (int k = 0; k < kAtOnce<E>; ++k) {
    packs.at[k] = load_pack(row, first + k * step, n, whole, none);
  }
  return packs;
}

template <class E>
__device__ E no_score() {
  return convert<E>(-std::numeric_limits<Compute<E>>::infinity());
}

template <class E>
__device__ void add_packs(MaxSum<E>& all, const Packs<E>& packs) {
  Compute<E> value[kAtOnce<E> * kRowPack<E>];
#pragma unroll
  for (int k = 0; k < kAtOnce<E>; ++k) {
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j)
      value[k * kRowPack<E> + j] = convert<Compute<E>>(packs.at[k].value[j]);
  }
  add_terms<E>(all, value);
}

template <class E>
using LogSum = core::kernels::LogSum<Compute<E>>;

// NaN where all scores are -infinity, as on the CPU.
template <class E>
__device__ LogSum<E> log_sum_of(const MaxSum<E>& all) {
  return LogSum<E>::of(
      all.top, all.sum > Compute<E>(0) ? all.sum : std::numeric_limits<Compute<E>>::quiet_NaN());
}
template <class E>
__device__ void store_log_sum(const LogSum<E>& sum, Compute<E>* log_sum, int64_t row) {
  log_sum[2 * row] = sum.shift;
  log_sum[2 * row + 1] = sum.rest;
}

// What a row's gradients are made of.
template <class E>
struct RowGradient {
  int64_t target;
  Compute<E> g;
  LogSum<E> log_sum;

  // That of the scores at, at + 1, ...
  __device__ RowPack<E> of(const RowPack<E>& scores, int64_t at) const {
    Compute<E> part[kRowPack<E>];
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j)
      part[j] = -g * exp_of<E>(log_sum.log_probability(convert<Compute<E>>(scores.value[j])));
    if (target >= at && target < at + kRowPack<E>) {
      const int hit = static_cast<int>(target - at);
#pragma unroll
      for (int j = 0; j < kRowPack<E>; ++j) part[j] = j == hit ? part[j] + g : part[j];
    }
    RowPack<E> pack;
    if constexpr (sizeof(E) == 2) {
      struct Words {
        alignas(sizeof(RowPack<E>)) uint32_t word[kRowPack<E> / 2];
      } words;
#pragma unroll
      for (int j = 0; j < kRowPack<E>; j += 2)
        words.word[j / 2] = pack_halves<E>(part[j], part[j + 1]);
      pack = std::bit_cast<RowPack<E>>(words);
    } else {
#pragma unroll
      for (int j = 0; j < kRowPack<E>; ++j) pack.value[j] = part[j];
    }
    return pack;
  }
};

// The next packs are asked for before it computes with those that came.
template <class E>
__global__ void __launch_bounds__(kMostThreads, 2)
    log_likelihood_kernel(const E* x, const int64_t* classes, Compute<E>* out, Compute<E>* log_sum,
                          int64_t rows, int64_t n, Team team, bool whole) {
  const int64_t row = team.index(), step = int64_t{team.width} * kRowPack<E>;
  const int64_t count = row < rows ? n : 0;
  const E* from = x + (count > 0 ? row : 0) * n;
  Compute<E> picked = 0;
  if (count > 0 && team.rank() == 0) picked = convert<Compute<E>>(from[classes[row]]);
  MaxSum<E> all = no_terms<E>();
  int64_t at = int64_t{team.rank()} * kRowPack<E>;
  Packs<E> next = load_packs(from, at, step, count, whole, no_score<E>());
  while (at < count) {
    const Packs<E> packs = next;
    at += kAtOnce<E> * step;
    next = load_packs(from, at, step, count, whole, no_score<E>());
    add_packs(all, packs);
  }
  all = team.reduce(all, MaxSumJoin<E>());
  if (count == 0 || team.rank() != 0) return;
  const LogSum<E> sum = log_sum_of(all);
  store_log_sum<E>(sum, log_sum, row);
  out[row] = sum.log_probability(picked);
}

template <class E>
__global__ void __launch_bounds__(kThreads, 4)
    log_likelihood_backward_kernel(const Compute<E>* g, const E* x, const int64_t* classes,
                                   const Compute<E>* log_sum, E* g_x, int64_t rows, int64_t n,
                                   Team team, bool whole) {
  const int64_t row = team.index(), step = int64_t{team.width} * kRowPack<E>;
  if (row >= rows) return;
  const E* from = x + row * n;
  E* to = g_x + row * n;
  const RowGradient<E> gradient{classes[row], g[row], {log_sum[2 * row], log_sum[2 * row + 1]}};
  for (int64_t first = int64_t{team.rank()} * kRowPack<E>; first < n; first += kAtOnce<E> * step) {
    const Packs<E> packs = load_packs(from, first, step, n, whole, E());
#pragma unroll
    for (int k = 0; k < kAtOnce<E>; ++k) {
      const int64_t at = first + k * step;
      if (at < n) store_pack(gradient.of(packs.at[k], at), to, at, n, whole);
    }
  }
}

// Both in one, with the same bits. All of a row is on its way to shared memory at once, where each
// thread reads again what it has asked for itself.
template <class E>
__global__ void __launch_bounds__(kMostThreads, 2)
    log_likelihood_in_place_kernel(const Compute<E>* g, E* x, const int64_t* classes,
                                   Compute<E>* out, Compute<E>* log_sum, int64_t rows, int64_t n,
                                   Team team, bool whole) {
  const int64_t row = team.index();
  const int row_packs = static_cast<int>((n + kRowPack<E> - 1) / kRowPack<E>);
  const int packs = row < rows ? row_packs : 0;
  E* const own = x + (row < rows ? row : 0) * n;
  RowPack<E>* const kept =
      dynamic_shared<RowPack<E>>() + static_cast<int>(threadIdx.x) / team.width * row_packs;
  for (int p = team.rank(); p < packs; p += team.width) {
    const int64_t at = int64_t{p} * kRowPack<E>;
    if (whole) {
      copy_async<sizeof(RowPack<E>)>(kept + p, own + at, false);
    } else {
      kept[p] = load_pack(own, at, n, false, no_score<E>());
    }
  }
  commit_copies();
  RowGradient<E> gradient{};
  if (packs > 0) gradient = {classes[row], g[row], {}};
  wait_copies<0>();
  MaxSum<E> all = no_terms<E>();
  for (int first = team.rank(); first < packs; first += kAtOnce<E> * team.width) {
    Packs<E> some;
#pragma unroll
    for (int k = 0; k < kAtOnce<E>; ++k) {
      const int p = first + k * team.width;
      if (p < packs) {
        some.at[k] = kept[p];
      } else {
        for (E& value : some.at[k].value) value = no_score<E>();
      }
    }
    add_packs(all, some);
  }
  __syncwarp();  // the target's score may be another thread's
  all = team.reduce(all, MaxSumJoin<E>());
  if (packs == 0) return;
  gradient.log_sum = log_sum_of(all);
  if (team.rank() == 0) {
    store_log_sum<E>(gradient.log_sum, log_sum, row);
    out[row] = gradient.log_sum.log_probability(
        convert<Compute<E>>(reinterpret_cast<const E*>(kept)[gradient.target]));
  }
  for (int p = team.rank(); p < packs; p += team.width) {
    const int64_t at = int64_t{p} * kRowPack<E>;
    store_pack(gradient.of(kept[p], at), own, at, n, whole);
  }
}

// Threads for a row: some packs for each.
template <class E>
Team team_for(int64_t n, int most = kMostThreads) {
  const bool is_short = n <= 4 * kWarp * kRowPack<E>;
  const int width = team_width<E>(n, is_short ? 1 : kAtOnce<E>, most);
  return {is_short ? std::min(width, kWarp) : width};
}

// What a block of the current device can have; the parts of reductions take some more.
int64_t most_shared(int device) {
  int bytes = 0;
  check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
             "log_likelihood");
  return bytes - 1024;
}

}  // namespace

void CudaBackend::run(const call::LogLikelihood& call) {
  if (call.x.numel() == 0) return;
  const DeviceGuard guard(index_);
  const int64_t rows = call.x.shape()[0], n = call.x.shape()[1];
  dispatch_floats(call.x.dtype(), [&]<class E>(TypeTag<E>) {
    const Team team = team_for<E>(n);
    launch("log_likelihood", log_likelihood_kernel<E>, team_blocks(rows, team.width),
           dim3(static_cast<unsigned>(team_threads(team.width))), 0,
           reinterpret_cast<const E*>(call.x.bytes()),
           reinterpret_cast<const int64_t*>(call.classes.bytes()),
           reinterpret_cast<Compute<E>*>(call.out.bytes()),
           reinterpret_cast<Compute<E>*>(call.log_sum.bytes()), rows, n, team,
           packs_fit<E>(call.x.bytes(), n));
  });
}

void CudaBackend::run(const call::LogLikelihoodBack& call) {
  if (call.x.numel() == 0) return;
  const DeviceGuard guard(index_);
  const int64_t rows = call.x.shape()[0], n = call.x.shape()[1];
  dispatch_floats(call.x.dtype(), [&]<class E>(TypeTag<E>) {
    const Team team = team_for<E>(n, kThreads);
    launch("log_likelihood_backward", log_likelihood_backward_kernel<E>,
           team_blocks(rows, team.width), dim3(static_cast<unsigned>(team_threads(team.width))), 0,
           reinterpret_cast<const Compute<E>*>(call.g.bytes()),
           reinterpret_cast<const E*>(call.x.bytes()),
           reinterpret_cast<const int64_t*>(call.classes.bytes()),
           reinterpret_cast<const Compute<E>*>(call.log_sum.bytes()),
           reinterpret_cast<E*>(call.g_x.bytes()), rows, n, team,
           packs_fit<E>(call.x.bytes(), n) && packs_fit<E>(call.g_x.bytes(), n));
  });
}

void CudaBackend::run(const call::LogLikelihoodInPlace& call) {
  if (call.x.numel() == 0) return;
  const DeviceGuard guard(index_);
  const int64_t rows = call.x.shape()[0], n = call.x.shape()[1];
  dispatch_floats(call.x.dtype(), [&]<class E>(TypeTag<E>) {
    const Team team = team_for<E>(n);
    const int64_t row_packs = (n + kRowPack<E> - 1) / kRowPack<E>;
    const int64_t bytes = team_threads(team.width) / team.width * row_packs *
                          static_cast<int64_t>(sizeof(RowPack<E>));
    if (bytes > most_shared(index_)) {
      return Backend::run(call);
    }
    launch("log_likelihood", log_likelihood_in_place_kernel<E>, team_blocks(rows, team.width),
           dim3(static_cast<unsigned>(team_threads(team.width))), static_cast<size_t>(bytes),
           reinterpret_cast<const Compute<E>*>(call.g.bytes()),
           reinterpret_cast<E*>(call.x.bytes()),
           reinterpret_cast<const int64_t*>(call.classes.bytes()),
           reinterpret_cast<Compute<E>*>(call.out.bytes()),
           reinterpret_cast<Compute<E>*>(call.log_sum.bytes()), rows, n, team,
           packs_fit<E>(call.x.bytes(), n));
  });
}

}  // namespace hero::cuda

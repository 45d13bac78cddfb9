// The logarithm of one class's probability from each row of scores, and its derivative: one read of
// the scores each, and in backward one write, which may be over the scores.
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/reduce/lines.cuh>

namespace hero::cuda {

namespace {

// Packs on their way from memory to one thread; more doubles would not fit its registers.
template <class E>
constexpr int kAtOnce = sizeof(E) == 8 ? 1 : 2;

template <class E>
__global__ void __launch_bounds__(512, 2)
    log_likelihood_kernel(const E* x, const int64_t* classes, Compute<E>* out, Compute<E>* log_sum,
                          int64_t rows, int64_t n, Team team, bool whole) {
  using A = Compute<E>;
  const E none = convert<E>(-std::numeric_limits<A>::infinity());
  const int64_t row = team.index(), step = int64_t{team.width} * kRowPack<E>;
  const int64_t count = row < rows ? n : 0;
  const E* from = x + (count > 0 ? row : 0) * n;
  MaxSum<E> all = no_terms<E>();
  for (int64_t at = int64_t{team.rank()} * kRowPack<E>; at < count; at += kAtOnce<E> * step) {
    RowPack<E> pack[kAtOnce<E>];
    A value[kAtOnce<E> * kRowPack<E>];
#pragma unroll
    for (int k = 0; k < kAtOnce<E>; ++k)
      pack[k] = load_pack(from, at + k * step, count, whole, none);
#pragma unroll
    for (int k = 0; k < kAtOnce<E>; ++k) {
#pragma unroll
      for (int j = 0; j < kRowPack<E>; ++j)
        value[k * kRowPack<E> + j] = convert<A>(pack[k].value[j]);
    }
    add_terms<E>(all, value);
  }
  all = team.reduce(all, MaxSumJoin<E>());
  if (count == 0 || team.rank() != 0) return;
  const A sum = log_sum_exp(all);
  log_sum[row] = sum;
  out[row] = convert<A>(from[classes[row]]) - sum;
}

template <class E>
__global__ void __launch_bounds__(512, 2)
    log_likelihood_backward_kernel(const Compute<E>* g, const E* x, const int64_t* classes,
                                   const Compute<E>* log_sum, E* g_x, int64_t rows, int64_t n,
                                   Team team, bool whole) {
  using A = Compute<E>;
  const int64_t row = team.index(), step = int64_t{team.width} * kRowPack<E>;
  if (row >= rows) return;
  const A gradient = g[row], sum = log_sum[row];
  const int64_t target = classes[row];
  const E* from = x + row * n;
  E* to = g_x + row * n;
  for (int64_t first = int64_t{team.rank()} * kRowPack<E>; first < n; first += kAtOnce<E> * step) {
    RowPack<E> pack[kAtOnce<E>];
#pragma unroll
    for (int k = 0; k < kAtOnce<E>; ++k) pack[k] = load_pack(from, first + k * step, n, whole);
#pragma unroll
    for (int k = 0; k < kAtOnce<E>; ++k) {
      const int64_t at = first + k * step;
      if (at >= n) break;
#pragma unroll
      for (int j = 0; j < kRowPack<E>; ++j) {
        const A part = -gradient * exp_of<E>(convert<A>(pack[k].value[j]) - sum);
        pack[k].value[j] = convert<E>(at + j == target ? part + gradient : part);
      }
      store_pack(pack[k], to, at, n, whole);
    }
  }
}

// Threads for a row: some packs for each, at most 512 threads.
template <class E>
Team team_for(int64_t n) {
  const int width = team_width<E>(n, n <= 4 * kWarp * kRowPack<E> ? 1 : kAtOnce<E>, 512);
  return {n <= 4 * kWarp * kRowPack<E> ? std::min(width, kWarp) : width};
}

}  // namespace

void CudaBackend::log_likelihood(const Array& x, const Array& classes, const Array& out,
                                 const Array& log_sum) {
  if (x.numel() == 0) return;
  const DeviceGuard guard(index_);
  const int64_t rows = x.shape()[0], n = x.shape()[1];
  dispatch_floats(x.dtype(), [&]<class E>(TypeTag<E>) {
    const Team team = team_for<E>(n);
    launch("log_likelihood", log_likelihood_kernel<E>, team_blocks(rows, team.width),
           dim3(static_cast<unsigned>(team_threads(team.width))), 0,
           reinterpret_cast<const E*>(x.bytes()), reinterpret_cast<const int64_t*>(classes.bytes()),
           reinterpret_cast<Compute<E>*>(out.bytes()),
           reinterpret_cast<Compute<E>*>(log_sum.bytes()), rows, n, team,
           packs_fit<E>(x.bytes(), n));
  });
}

void CudaBackend::log_likelihood_backward(const Array& g, const Array& x, const Array& classes,
                                          const Array& log_sum, const Array& g_x) {
  if (x.numel() == 0) return;
  const DeviceGuard guard(index_);
  const int64_t rows = x.shape()[0], n = x.shape()[1];
  dispatch_floats(x.dtype(), [&]<class E>(TypeTag<E>) {
    const Team team = team_for<E>(n);
    launch("log_likelihood_backward", log_likelihood_backward_kernel<E>,
           team_blocks(rows, team.width), dim3(static_cast<unsigned>(team_threads(team.width))), 0,
           reinterpret_cast<const Compute<E>*>(g.bytes()), reinterpret_cast<const E*>(x.bytes()),
           reinterpret_cast<const int64_t*>(classes.bytes()),
           reinterpret_cast<const Compute<E>*>(log_sum.bytes()), reinterpret_cast<E*>(g_x.bytes()),
           rows, n, team, packs_fit<E>(x.bytes(), n) && packs_fit<E>(g_x.bytes(), n));
  });
}

}  // namespace hero::cuda

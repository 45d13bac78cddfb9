// Softmax and its logarithm along one dimension. Rows that fit the registers of a team are read
// once; longer ones twice, the second time mostly from the cache; lines side by side by a thread
// each and slice.
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/reduce/lines.cuh>
#include <hero/cuda/reduce/rows.cuh>

namespace hero::cuda {

namespace {

using core::SoftmaxKind;

// Where rows lie and how they are shared out; `whole`: all arrays fit packs.
struct RowsShape {
  Layout x, out;
  int64_t rows, n;
  RowTeam team;
  bool log, whole;
};

template <class E>
__device__ E minus_infinity() {
  return convert<E>(-std::numeric_limits<Compute<E>>::infinity());
}

template <class E, int kHeld, int kMostThreads>
__global__ void __launch_bounds__(kMostThreads)
    softmax_held_kernel(const E* x, E* out, const RowsShape shape) {
  using A = Compute<E>;
  constexpr A kNone = -std::numeric_limits<A>::infinity();
  const RowTeam team = shape.team;
  const int64_t row = team.index(), n = row < shape.rows ? shape.n : 0;
  const int64_t step = int64_t{team.width} * kRowPack<E>,
                first = int64_t{team.rank()} * kRowPack<E>;
  RowPack<E> pack[kHeld];
  load_packs(pack, x + shape.x.at(n > 0 ? row : 0), first, step, n, shape.whole,
             minus_infinity<E>());
  A value[kHeld][kRowPack<E>];
  A top = kNone;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) {
      value[k][j] = convert<A>(pack[k].value[j]);
      top = value[k][j] > top ? value[k][j] : top;
    }
  }
  top = team.reduce(top, MaxJoin(), kNone, 0);
  A sum = A(0);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) {
      // Behind a row's end are zeros; or NaN where all of the row are -infinity, and its sum is
      // NaN.
      const A centered = value[k][j] - top, term = exp_of<E>(centered);
      sum += term;
      value[k][j] = shape.log ? centered : term;
    }
  }
  sum = team.reduce(sum, SumJoin(), A(0), 1);
  const A scale = A(1) / sum, shift = shape.log ? math::log(sum) : A(0);
  E* to = out + shape.out.at(n > 0 ? row : 0);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int64_t at = first + k * step;
    if (at >= n) continue;
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) {
      pack[k].value[j] = convert<E>(shape.log ? value[k][j] - shift : value[k][j] * scale);
    }
    store_pack(pack[k], to, at, n, shape.whole);
  }
}

// The result for one element of a line of which top and sum are known.
template <class E>
__device__ E finished(bool log, E x, Compute<E> top, Compute<E> scale, Compute<E> shift) {
  const Compute<E> centered = convert<Compute<E>>(x) - top;
  return convert<E>(log ? centered - shift : exp_of<E>(centered) * scale);
}

template <class E>
__global__ void __launch_bounds__(1024)
    softmax_long_kernel(const E* x, E* out, const RowsShape shape) {
  using A = Compute<E>;
  const RowTeam team = shape.team;
  const int64_t row = team.index(), step = int64_t{team.width} * kRowPack<E>;
  const E* from = x + shape.x.at(row);
  E* to = out + shape.out.at(row);
  MaxSum<E> all = no_terms<E>();
  for (int64_t at = int64_t{team.rank()} * kRowPack<E>; at < shape.n; at += step) {
    const RowPack<E> pack = load_pack(from, at, shape.n, shape.whole, minus_infinity<E>());
    A value[kRowPack<E>];
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) value[j] = convert<A>(pack.value[j]);
    add_terms<E>(all, value);
  }
  all = team.reduce(all, MaxSumJoin<E>(), no_terms<E>(), 0);
  const A scale = A(1) / all.sum, shift = math::log(all.sum);
  for (int64_t at = int64_t{team.rank()} * kRowPack<E>; at < shape.n; at += step) {
    RowPack<E> pack = load_pack(from, at, shape.n, shape.whole);
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) {
      pack.value[j] = finished(shape.log, pack.value[j], all.top, scale, shift);
    }
    store_pack(pack, to, at, shape.n, shape.whole);
  }
}

template <class E>
__global__ void softmax_lines_kernel(const E* x, E* out, const Lines in, const Lines to, bool log) {
  using A = Compute<E>;
  const LinePlace place = LinePlace::mine();
  const bool there = place.line < in.count;
  const E* from = x + in.starts.at(there ? place.line : 0);
  MaxSum<E> all = no_terms<E>();
  for (int64_t i = place.slice; there && i < in.n; i += kSlices) {
    const A value[1] = {convert<A>(from[i * in.stride])};
    add_terms<E>(all, value);
  }
  all = join_slices(all, MaxSumJoin<E>());
  const A scale = A(1) / all.sum, shift = math::log(all.sum);
  E* target = out + to.starts.at(there ? place.line : 0);
  for (int64_t i = place.slice; there && i < in.n; i += kSlices) {
    target[i * to.stride] = finished(log, from[i * in.stride], all.top, scale, shift);
  }
}

// What backward sums over a line, and the gradient.
template <class A>
__device__ A backward_term(bool log, A g, A y) {
  return log ? g : g * y;
}
template <class E>
__device__ E backward_value(bool log, E g_of, E y_of, Compute<E> sum) {
  using A = Compute<E>;
  const A g = convert<A>(g_of), y = convert<A>(y_of);
  return convert<E>(log ? g - exp_of<E>(y) * sum : y * (g - sum));
}

// What backward sums over a pack.
template <class E>
__device__ Compute<E> backward_terms(bool log, const RowPack<E>& g, const RowPack<E>& y) {
  using A = Compute<E>;
  A sum = A(0);
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) {
    sum += backward_term(log, convert<A>(g.value[j]), convert<A>(y.value[j]));
  }
  return sum;
}
template <class E>
__device__ RowPack<E> backward_pack(bool log, RowPack<E> g, const RowPack<E>& y, Compute<E> sum) {
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) {
    g.value[j] = backward_value(log, g.value[j], y.value[j], sum);
  }
  return g;
}

template <class E, int kHeld, int kMostThreads>
__global__ void __launch_bounds__(kMostThreads)
    softmax_backward_held_kernel(const E* g, const Layout gradients, const E* y, E* out,
                                 const RowsShape shape) {
  using A = Compute<E>;
  const RowTeam team = shape.team;
  const int64_t row = team.index(), n = row < shape.rows ? shape.n : 0, place = n > 0 ? row : 0;
  const int64_t step = int64_t{team.width} * kRowPack<E>,
                first = int64_t{team.rank()} * kRowPack<E>;
  RowPack<E> held_g[kHeld], held_y[kHeld];
  load_packs(held_g, g + gradients.at(place), first, step, n, shape.whole, convert<E>(A(0)));
  load_packs(held_y, y + shape.x.at(place), first, step, n, shape.whole, convert<E>(A(0)));
  A sum = A(0);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) sum += backward_terms(shape.log, held_g[k], held_y[k]);
  sum = team.reduce(sum, SumJoin(), A(0), 0);
  E* to = out + shape.out.at(place);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int64_t at = first + k * step;
    if (at < n)
      store_pack(backward_pack(shape.log, held_g[k], held_y[k], sum), to, at, n, shape.whole);
  }
}

// A block a row, which is read twice.
template <class E>
__global__ void __launch_bounds__(1024)
    softmax_backward_long_kernel(const E* g, const Layout gradients, const E* y, E* out,
                                 const RowsShape shape) {
  using A = Compute<E>;
  const RowTeam team = shape.team;
  const int64_t row = team.index(), n = shape.n, step = int64_t{team.width} * kRowPack<E>;
  const int64_t first = int64_t{team.rank()} * kRowPack<E>;
  const E *from_g = g + gradients.at(row), *from_y = y + shape.x.at(row);
  E* to = out + shape.out.at(row);
  A sum = A(0);
  for (int64_t at = first; at < n; at += step) {
    const RowPack<E> of_g = load_pack(from_g, at, n, shape.whole, convert<E>(A(0)));
    sum += backward_terms(shape.log, of_g, load_pack(from_y, at, n, shape.whole, convert<E>(A(0))));
  }
  sum = team.reduce(sum, SumJoin(), A(0), 0);
  for (int64_t at = first; at < n; at += step) {
    const RowPack<E> of_g = load_pack(from_g, at, n, shape.whole);
    const RowPack<E> of_y = load_pack(from_y, at, n, shape.whole);
    store_pack(backward_pack(shape.log, of_g, of_y, sum), to, at, n, shape.whole);
  }
}

template <class E>
__global__ void softmax_backward_lines_kernel(const E* g, const Lines gradients, const E* y,
                                              const Lines outputs, E* out, const Lines to,
                                              bool log) {
  using A = Compute<E>;
  const LinePlace place = LinePlace::mine();
  const bool there = place.line < outputs.count;
  const int64_t line = there ? place.line : 0;
  const E *from_g = g + gradients.starts.at(line), *from_y = y + outputs.starts.at(line);
  A sum = A(0);
  for (int64_t i = place.slice; there && i < outputs.n; i += kSlices) {
    sum += backward_term(log, convert<A>(from_g[i * gradients.stride]),
                         convert<A>(from_y[i * outputs.stride]));
  }
  sum = join_slices(sum, SumJoin());
  E* target = out + to.starts.at(line);
  for (int64_t i = place.slice; there && i < outputs.n; i += kSlices) {
    target[i * to.stride] =
        backward_value(log, from_g[i * gradients.stride], from_y[i * outputs.stride], sum);
  }
}

// An array whose lines can be read well: itself, or a copy.
Array readable(const Array& x, int dim) {
  const Lines lines(x, dim);
  return lines.dense() || lines.side_by_side() ? x : x.contiguous();
}

template <class E>
const E* elements(const Array& x) {
  return reinterpret_cast<const E*>(x.bytes());
}

template <class E>
void softmax_as(SoftmaxKind kind, const Array& x, int dim, const Array& out) {
  const Lines in(x, dim), to(out, dim);
  auto* target = reinterpret_cast<E*>(out.bytes());
  const bool log = kind == SoftmaxKind::log_softmax;
  if (!in.dense() || !to.dense()) {
    launch("softmax", softmax_lines_kernel<E>, blocks_for(in.count, kWarp), dim3(kThreads), 0,
           elements<E>(x), target, in, to, log);
    return;
  }
  const RowPlan plan = plan_row<E>(in.n);
  const RowsShape shape{
      in.starts, to.starts, in.count, in.n, plan.team, log, in.whole<E>(x) && to.whole<E>(out)};
  const auto start = [&](auto* kernel) {
    launch("softmax", kernel, plan.blocks(in.count), plan.threads(), 0, elements<E>(x), target,
           shape);
  };
  if (plan.held == 0) return start(softmax_long_kernel<E>);
  dispatch_held<E>(plan, [&]<int kHeld, int kMostThreads>() {
    start(softmax_held_kernel<E, kHeld, kMostThreads>);
  });
}

template <class E>
void softmax_backward_as(SoftmaxKind kind, const Array& g, const Array& y, int dim,
                         const Array& out) {
  const Lines gradients(g, dim), outputs(y, dim), to(out, dim);
  auto* target = reinterpret_cast<E*>(out.bytes());
  const bool log = kind == SoftmaxKind::log_softmax;
  if (!gradients.dense() || !outputs.dense() || !to.dense()) {
    launch("softmax_backward", softmax_backward_lines_kernel<E>, blocks_for(outputs.count, kWarp),
           dim3(kThreads), 0, elements<E>(g), gradients, elements<E>(y), outputs, target, to, log);
    return;
  }
  const RowPlan plan = plan_row<E>(outputs.n);
  const bool whole = gradients.whole<E>(g) && outputs.whole<E>(y) && to.whole<E>(out);
  const RowsShape shape{outputs.starts, to.starts, outputs.count, outputs.n, plan.team, log, whole};
  const auto start = [&](auto* kernel) {
    launch("softmax_backward", kernel, plan.blocks(outputs.count), plan.threads(), 0,
           elements<E>(g), gradients.starts, elements<E>(y), target, shape);
  };
  if (plan.held == 0) return start(softmax_backward_long_kernel<E>);
  dispatch_held<E>(plan, [&]<int kHeld, int kMostThreads>() {
    start(softmax_backward_held_kernel<E, kHeld, kMostThreads>);
  });
}

}  // namespace

void CudaBackend::softmax(SoftmaxKind kind, const Array& x, int dim, const Array& out) {
  if (out.numel() == 0) return;
  const DeviceGuard guard(index_);
  const Array from = readable(x.to(out.dtype()), dim);
  dispatch_floats(out.dtype(), [&]<class E>(TypeTag<E>) { softmax_as<E>(kind, from, dim, out); });
}

void CudaBackend::softmax_backward(SoftmaxKind kind, const Array& g, const Array& y, int dim,
                                   const Array& out) {
  if (out.numel() == 0) return;
  const DeviceGuard guard(index_);
  const Array from_g = readable(g.to(out.dtype()), dim), from_y = readable(y.to(out.dtype()), dim);
  dispatch_floats(out.dtype(), [&]<class E>(TypeTag<E>) {
    softmax_backward_as<E>(kind, from_g, from_y, dim, out);
  });
}

}  // namespace hero::cuda

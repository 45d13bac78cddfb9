// Softmax and its logarithm along one dimension. Rows that fit the registers of a team are read
// once; longer ones twice, the second time mostly from the cache; lines that are side by side are
// read by one thread for each line and slice.
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/reduce/lines.cuh>

namespace hero::cuda {

namespace {

using core::SoftmaxKind;

// Where rows lie and how they are shared out; `whole`: all arrays fit packs.
struct RowsShape {
  Layout x, out;
  int64_t rows, n;
  Team team;
  bool log, whole;
};

template <class E>
__device__ E minus_infinity() {
  return convert<E>(-std::numeric_limits<Compute<E>>::infinity());
}

template <class E, int kHeld>
__global__ void __launch_bounds__(1024)
    softmax_held_kernel(const E* x, E* out, const RowsShape shape) {
  using A = Compute<E>;
  const Team team = shape.team;
  const int64_t row = team.index(), n = row < shape.rows ? shape.n : 0;
  const E* from = x + shape.x.at(n > 0 ? row : 0);
  A value[kHeld][kRowPack<E>];
  A top = -std::numeric_limits<A>::infinity();
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int64_t at = int64_t{k * team.width + team.rank()} * kRowPack<E>;
    const RowPack<E> pack = load_pack(from, at, n, shape.whole, minus_infinity<E>());
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) {
      value[k][j] = convert<A>(pack.value[j]);
      top = value[k][j] > top ? value[k][j] : top;
    }
  }
  top = team.reduce(top, MaxJoin());
  A sum = A(0);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int64_t at = int64_t{k * team.width + team.rank()} * kRowPack<E>;
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) {
      // A row of -infinity is NaN; what lies behind a row's end is not in the sum.
      const A term = at + j < n ? exp_of<E>(value[k][j] - top) : A(0);
      sum += term;
      value[k][j] = shape.log ? value[k][j] - top : term;
    }
  }
  sum = team.reduce(sum, SumJoin());
  const A scale = A(1) / sum, shift = math::log(sum);
  E* to = out + shape.out.at(n > 0 ? row : 0);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int64_t at = int64_t{k * team.width + team.rank()} * kRowPack<E>;
    if (at >= n) continue;
    RowPack<E> pack;
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) {
      pack.value[j] = convert<E>(shape.log ? value[k][j] - shift : value[k][j] * scale);
    }
    store_pack(pack, to, at, n, shape.whole);
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
  const Team team = shape.team;
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
  all = team.reduce(all, MaxSumJoin<E>());
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

// kHeld packs a thread stay in registers; 0: the row is read twice.
template <class E, int kHeld>
__global__ void __launch_bounds__(1024)
    softmax_backward_rows_kernel(const E* g, const Layout gradients, const E* y, E* out,
                                 const RowsShape shape) {
  using A = Compute<E>;
  constexpr int kKept = kHeld > 0 ? kHeld : 1;
  const Team team = shape.team;
  const int64_t row = team.index(), n = row < shape.rows ? shape.n : 0;
  const int64_t step = int64_t{team.width} * kRowPack<E>, place = n > 0 ? row : 0;
  const E *from_g = g + gradients.at(place), *from_y = y + shape.x.at(place);
  E* to = out + shape.out.at(place);
  RowPack<E> held_g[kKept], held_y[kKept];
  A sum = A(0);
  const auto add = [&](int k, int64_t at) {
    held_g[k] = load_pack(from_g, at, n, shape.whole, convert<E>(A(0)));
    held_y[k] = load_pack(from_y, at, n, shape.whole, convert<E>(A(0)));
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) {
      sum +=
          backward_term(shape.log, convert<A>(held_g[k].value[j]), convert<A>(held_y[k].value[j]));
    }
  };
  const auto finish = [&](int k, int64_t at) {
    RowPack<E> pack;
#pragma unroll
    for (int j = 0; j < kRowPack<E>; ++j) {
      pack.value[j] = backward_value(shape.log, held_g[k].value[j], held_y[k].value[j], sum);
    }
    store_pack(pack, to, at, n, shape.whole);
  };
  const int64_t first = int64_t{team.rank()} * kRowPack<E>;
  if constexpr (kHeld > 0) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) add(k, first + k * step);
  } else {
    for (int64_t at = first; at < n; at += step) add(0, at);
  }
  sum = team.reduce(sum, SumJoin());
  if constexpr (kHeld > 0) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) finish(k, first + k * step);
  } else {
    for (int64_t at = first; at < n; at += step) {
      held_g[0] = load_pack(from_g, at, n, shape.whole);
      held_y[0] = load_pack(from_y, at, n, shape.whole);
      finish(0, at);
    }
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

// Packs of a row that a thread keeps; more halves would not fit 64 registers.
template <class E>
constexpr int kMostHeld = sizeof(E) == 2 ? 2 : 4;
constexpr int kMostThreads = 1024;

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
  RowsShape shape{in.starts, to.starts, in.count, in.n, {1}, log, false};
  shape.whole = in.whole<E>(x) && to.whole<E>(out);
  const bool small = in.n <= kWarp * kRowPack<E>;
  shape.team.width = team_width<E>(in.n, small ? 1 : kMostHeld<E>, kMostThreads);
  if (shape.team.width < kWarp && !small) shape.team.width = kWarp;
  const bool fits = in.n <= int64_t{shape.team.width} * kMostHeld<E> * kRowPack<E>;
  const auto kernel = small
                          ? softmax_held_kernel<E, 1>
                          : (fits ? softmax_held_kernel<E, kMostHeld<E>> : softmax_long_kernel<E>);
  launch("softmax", kernel, team_blocks(in.count, shape.team.width),
         dim3(static_cast<unsigned>(team_threads(shape.team.width))), 0, elements<E>(x), target,
         shape);
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
  RowsShape shape{outputs.starts, to.starts, outputs.count, outputs.n, {1}, log, false};
  shape.whole = gradients.whole<E>(g) && outputs.whole<E>(y) && to.whole<E>(out);
  const bool small = outputs.n <= kWarp * kRowPack<E>;
  shape.team.width = team_width<E>(outputs.n, small ? 1 : kMostHeld<E>, kMostThreads);
  if (shape.team.width < kWarp && !small) shape.team.width = kWarp;
  const bool fits = outputs.n <= int64_t{shape.team.width} * kMostHeld<E> * kRowPack<E>;
  const auto kernel = small ? softmax_backward_rows_kernel<E, 1>
                            : (fits ? softmax_backward_rows_kernel<E, kMostHeld<E>>
                                    : softmax_backward_rows_kernel<E, 0>);
  launch("softmax_backward", kernel, team_blocks(outputs.count, shape.team.width),
         dim3(static_cast<unsigned>(team_threads(shape.team.width))), 0, elements<E>(g),
         gradients.starts, elements<E>(y), target, shape);
}

}  // namespace

void CudaBackend::run(const call::Softmax& call) {
  if (call.out.numel() == 0) return;
  const DeviceGuard guard(index_);
  const Array from = readable(call.x.to(call.out.dtype()), call.dim);
  dispatch_floats(call.out.dtype(),
                  [&]<class E>(TypeTag<E>) { softmax_as<E>(call.kind, from, call.dim, call.out); });
}

void CudaBackend::run(const call::SoftmaxBack& call) {
  if (call.out.numel() == 0) return;
  const DeviceGuard guard(index_);
  const Array from_g = readable(call.g.to(call.out.dtype()), call.dim),
              from_y = readable(call.y.to(call.out.dtype()), call.dim);
  dispatch_floats(call.out.dtype(), [&]<class E>(TypeTag<E>) {
    softmax_backward_as<E>(call.kind, from_g, from_y, call.dim, call.out);
  });
}

}  // namespace hero::cuda

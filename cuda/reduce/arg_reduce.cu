// Positions of largest and smallest elements. Of equal elements the first wins, of NaNs the first
// NaN: a total order, so the result does not depend on how lines are shared out.
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/reduce/lines.cuh>

namespace hero::cuda {

namespace {

template <class A>
struct Best {
  A value;
  int64_t index;
};

struct BestJoin {
  bool largest;
  template <class A>
  __device__ Best<A> operator()(const Best<A>& a, const Best<A>& b) const {
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    const bool beats = largest ? a.value > b.value : a.value < b.value;
    const bool loses = largest ? b.value > a.value : b.value < a.value;
    if (a_nan != b_nan) return a_nan ? a : b;
    if (beats != loses) return beats ? a : b;
    return a.index < b.index ? a : b;
  }
};

// Where the lines and results are. `positions` (of x's layout, contiguous) are those of elements
// that are themselves results of parts of a line; null: an element's position is its own.
template <class E, class Out>
struct ArgShape {
  const E* x;
  Lines lines;
  const int64_t* positions;
  Out* values;
  Layout value_places;
  int64_t* indices;
  Layout index_places;
  Team team;
  int64_t part;  // elements of a line for each of the grid's blocks along y
  bool largest, whole;

  __device__ void store(int64_t at, const Best<Compute<E>>& best) const {
    values[value_places.at(at)] = convert<Out>(best.value);
    indices[index_places.at(at)] = best.index;
  }
};

template <class A>
__device__ Best<A> nothing() {
  // Loses to every element: its position comes last, and so does its value or its like.
  return {A(), std::numeric_limits<int64_t>::max()};
}
template <class A>
__device__ void add(Best<A>& best, A value, int64_t index, BestJoin join) {
  best = best.index == std::numeric_limits<int64_t>::max() ? Best<A>{value, index}
                                                           : join(best, Best<A>{value, index});
}

// Joins that know of threads without an element.
struct AnyJoin {
  BestJoin join;
  template <class A>
  __device__ Best<A> operator()(const Best<A>& a, const Best<A>& b) const {
    constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
    if (a.index == kNone || b.index == kNone) return a.index == kNone ? b : a;
    return join(a, b);
  }
};

template <class E, class Out>
__global__ void arg_reduce_rows_kernel(const ArgShape<E, Out> shape) {
  using A = Compute<E>;
  const Team team = shape.team;
  const Lines& lines = shape.lines;
  const BestJoin join{shape.largest};
  const int64_t line = team.index(), begin = blockIdx.y * shape.part;
  Best<A> best = nothing<A>();
  if (line < lines.count) {
    const E* from = shape.x + lines.starts.at(line);
    const int64_t end = begin + shape.part < lines.n ? begin + shape.part : lines.n;
    if (lines.dense()) {
      const int64_t step = int64_t{team.width} * kRowPack<E>;
      for (int64_t at = begin + team.rank() * kRowPack<E>; at < end; at += step) {
        const RowPack<E> pack = load_pack(from, at, end, shape.whole);
#pragma unroll
        for (int j = 0; j < kRowPack<E>; ++j) {
          if (at + j < end) add(best, convert<A>(pack.value[j]), at + j, join);
        }
      }
    } else {
      for (int64_t i = begin + team.rank(); i < end; i += team.width) {
        add(best, convert<A>(from[i * lines.stride]), i, join);
      }
    }
    if (shape.positions != nullptr && best.index < lines.n) {
      best.index = shape.positions[line * lines.n + best.index];
    }
  }
  best = team.reduce(best, AnyJoin{join});
  if (line < lines.count && team.rank() == 0) shape.store(line * gridDim.y + blockIdx.y, best);
}

template <class E, class Out>
__global__ void arg_reduce_lines_kernel(const ArgShape<E, Out> shape) {
  using A = Compute<E>;
  const Lines& lines = shape.lines;
  const BestJoin join{shape.largest};
  const LinePlace place = LinePlace::mine();
  const bool there = place.line < lines.count;
  const E* from = shape.x + lines.starts.at(there ? place.line : 0);
  Best<A> best = nothing<A>();
  for (int64_t i = place.slice; there && i < lines.n; i += kSlices) {
    add(best, convert<A>(from[i * lines.stride]), i, join);
  }
  best = join_slices(best, AnyJoin{join});
  if (there && place.slice == 0) shape.store(place.line, best);
}

constexpr int64_t kManyBlocks = 4 * 132;  // a constant: results must not depend on the GPU

template <class E, class Out>
void run_rows(ArgShape<E, Out> shape, int64_t parts) {
  dim3 grid = team_blocks(shape.lines.count, shape.team.width);
  grid.y = static_cast<unsigned>(parts);
  launch("arg_reduce", arg_reduce_rows_kernel<E, Out>, grid, dim3(kThreads), 0, shape);
}

template <class E>
void arg_reduce_as(ArgOp op, const Array& x, int dim, const Array& values, const Array& indices) {
  using A = Compute<E>;
  const Lines lines(x, dim);
  ArgShape<E, E> shape{reinterpret_cast<const E*>(x.bytes()),
                       lines,
                       nullptr,
                       reinterpret_cast<E*>(values.bytes()),
                       Layout(values),
                       reinterpret_cast<int64_t*>(indices.bytes()),
                       Layout(indices),
                       {1},
                       lines.n,
                       op == ArgOp::max,
                       lines.whole<E>(x)};
  if (!lines.dense() && lines.side_by_side()) {
    launch("arg_reduce", arg_reduce_lines_kernel<E, E>, blocks_for(lines.count, kWarp),
           dim3(kThreads), 0, shape);
    return;
  }
  const int64_t one = 8 * kThreads * kRowPack<E>;  // elements that are worth a block
  const bool alone = lines.n >= one || (lines.count < kManyBlocks && lines.n >= one / 8);
  shape.team.width = alone ? kThreads : team_width<E>(lines.n, 1, kWarp);
  int64_t parts = 1;
  if (alone && lines.count < kManyBlocks) {
    parts = std::min((kManyBlocks + lines.count - 1) / lines.count, (lines.n + one - 1) / one);
    shape.part = ((lines.n + parts - 1) / parts + kRowPack<E> - 1) / kRowPack<E> * kRowPack<E>;
    parts = (lines.n + shape.part - 1) / shape.part;
  }
  if (parts == 1) return run_rows(shape, 1);
  const Array best = Array::empty({lines.count, parts}, kDTypeOf<A>, x.device());
  const Array places = Array::empty({lines.count, parts}, kInt64, x.device());
  auto* best_of = reinterpret_cast<A*>(best.bytes());
  auto* place_of = reinterpret_cast<int64_t*>(places.bytes());
  run_rows(ArgShape<E, A>{shape.x, lines, nullptr, best_of, Layout(best), place_of, Layout(places),
                          shape.team, shape.part, shape.largest, shape.whole},
           parts);
  run_rows(ArgShape<A, E>{best_of,
                          Lines(best, 1),
                          place_of,
                          shape.values,
                          shape.value_places,
                          shape.indices,
                          shape.index_places,
                          {kWarp},
                          parts,
                          shape.largest,
                          false},
           1);
}

}  // namespace

void CudaBackend::run(const call::ArgReduce& call) {
  if (call.x.numel() == 0) return;
  const DeviceGuard guard(index_);
  dispatch(call.x.dtype(), [&]<class T>(TypeTag<T>) {
    // bool is read as bytes 0 and 1.
    using E = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    arg_reduce_as<E>(call.op, call.x, call.dim, call.values, call.indices);
  });
}

}  // namespace hero::cuda

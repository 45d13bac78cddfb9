#pragma once
// Reductions over any dimensions. Elements are joined in three steps of fixed order: by each
// thread, in levels that keep the error of long sums small; by the threads of a block as a tree;
// and, if there are too few results to keep the GPU busy, by a second launch over the results of
// several blocks.
#include <hero/cuda/cuda_backend.cuh>
#include <hero/cuda/elementwise/layout.cuh>
#include <hero/cuda/reduce/block.cuh>
#include <hero/cuda/reduce/reduce_ops.cuh>

namespace hero::cuda {

/// A reduction: results [rows] of n elements each. Element i of row r lies at kept.at(r) +
/// reduced.at(i) of x.
struct Reduction {
  const char* op;
  const void* x;
  Layout kept, reduced;
  int64_t rows, n;
  Device device;
};

/// The output of results: contiguous, rounded to the array's dtype.
template <class Acc>
struct Results {
  void* data;
  DType dtype;
  __device__ void store(int64_t at, Acc value) const {
    if constexpr (std::is_same_v<Acc, float>) {
      if (dtype == DType::bfloat16) {
        static_cast<BFloat16*>(data)[at] = BFloat16(value);
        return;
      }
      if (dtype == DType::float16) {
        static_cast<Float16*>(data)[at] = Float16(value);
        return;
      }
    }
    static_cast<Acc*>(data)[at] = value;
  }
};

/// The value that one thread has combined so far. If combining rounds, 16 values at a time are
/// combined in one level, and 16 of these in the next: the error grows with the number of levels,
/// not with the length.
template <class Op, class Acc>
class Running {
 public:
  __device__ void add(Acc value) {
    low_ = Op::join(low_, value);
    if constexpr (Op::template rounds<Acc>) {
      if ((++count_ & 15u) != 0) return;
      middle_ = Op::join(middle_, low_);
      low_ = none();
      if ((count_ & 255u) != 0) return;
      high_ = Op::join(high_, middle_);
      middle_ = none();
    }
  }
  __device__ Acc total() const {
    if constexpr (!Op::template rounds<Acc>) return low_;
    return Op::join(high_, Op::join(middle_, low_));
  }

 private:
  __device__ static Acc none() { return Op::template none<Acc>(); }
  Acc low_ = none(), middle_ = none(), high_ = none();
  unsigned count_ = 0;
};

/// An element as it is reduced: truth values where that is asked for.
template <class Op, class Acc, class E>
__device__ Acc prepared(E x, Acc center) {
  if constexpr (std::is_same_v<Op, Any> || std::is_same_v<Op, All>) {
    return convert<bool>(x) ? Acc(1) : Acc(0);
  } else {
    return Op::pre(convert<Acc>(x), center);
  }
}

template <class Op, class Acc>
__device__ Acc join_four(Acc a, Acc b, Acc c, Acc d) {
  return Op::join(Op::join(a, b), Op::join(c, d));
}

/// \name A team a row, its threads along the reduced dimensions.
/// \{
struct RowsShape {
  Layout kept, reduced;
  int64_t rows, n;
  int64_t part;  ///< elements of a row for each of the grid's blocks along y
  Team team;
  bool whole;  ///< rows can be read in packs
};

template <class Op, class Acc, int N>
__device__ Acc fold(Acc (&value)[N]) {
#pragma unroll
  for (int half = N / 2; half > 0; half /= 2) {
#pragma unroll
    for (int j = 0; j < half; ++j) value[j] = Op::join(value[j], value[j + half]);
  }
  return value[0];
}

// Elements at, at + 1, ... that lie in one pack.
template <class Op, class Acc, class E>
__device__ Acc fold_whole(const RowsShape& shape, const E* row, int64_t at, Acc center) {
  const RowPack<E> pack = *reinterpret_cast<const RowPack<E>*>(row + shape.reduced.at(at));
  Acc value[kRowPack<E>];
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) value[j] = prepared<Op>(pack.value[j], center);
  return fold<Op>(value);
}

// The same elements up to `end`, which may come before the pack's.
template <class Op, class Acc, class E>
__device__ Acc fold_last(const RowsShape& shape, const E* row, int64_t at, int64_t end,
                         Acc center) {
  if (shape.whole && at + kRowPack<E> <= end) return fold_whole<Op, Acc>(shape, row, at, center);
  Acc value[kRowPack<E>];
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) {
    value[j] = at + j < end ? prepared<Op>(row[shape.reduced.at(at + j)], center)
                            : Op::template none<Acc>();
  }
  return fold<Op>(value);
}

// Blocks that a multiprocessor has room for: four keep its memory busy, but wide numbers and exp
// need the registers of three.
template <class Op, class Acc>
constexpr int kRowBlocks = sizeof(Acc) == 8 || std::is_same_v<Op, SumExp> ? 3 : 4;

template <class Op, class E, class Acc>
__global__ void __launch_bounds__(kThreads, kRowBlocks<Op, Acc>)
    reduce_rows_kernel(const E* x, const RowsShape shape, const Acc* centers,
                       const Results<Acc> results) {
  const Team team = shape.team;
  const int64_t row = team.index();
  Running<Op, Acc> running;
  if (row < shape.rows) {
    const E* from = x + shape.kept.at(row);
    const Acc center = centers != nullptr ? centers[row] : Acc(0);
    const int64_t begin = blockIdx.y * shape.part, step = int64_t{team.width} * kRowPack<E>;
    const int64_t end = begin + shape.part < shape.n ? begin + shape.part : shape.n;
    int64_t at = begin + team.rank() * kRowPack<E>;
    // The last pack may be cut short.
    const int64_t packed = shape.whole ? end - kRowPack<E> : -1;
    for (; at + 3 * step <= packed; at += 4 * step) {
      running.add(join_four<Op>(fold_whole<Op, Acc>(shape, from, at, center),
                                fold_whole<Op, Acc>(shape, from, at + step, center),
                                fold_whole<Op, Acc>(shape, from, at + 2 * step, center),
                                fold_whole<Op, Acc>(shape, from, at + 3 * step, center)));
    }
    // The same joins in a loop: what is written once is compiled once.
#pragma unroll 1
    while (at < end) {
      const int count = at + 3 * step < end ? 4 : 1;
      Acc first = Acc(), half = Acc();
#pragma unroll 1
      for (int i = 1; i <= count; ++i, at += step) {
        const Acc value = fold_last<Op, Acc>(shape, from, at, end, center);
        const Acc pair = i % 2 == 0 ? Op::join(first, value) : value;
        if (i == 4) {
          first = Op::join(half, pair);
        } else {
          first = pair;
        }
        if (i == 2) half = pair;
      }
      running.add(first);
    }
  }
  const Acc total = team.reduce(running.total(), [](Acc a, Acc b) { return Op::join(a, b); });
  if (row < shape.rows && team.rank() == 0) results.store(row * gridDim.y + blockIdx.y, total);
}
/// \}

/// \name A pack of neighbouring columns a thread; the slices of a block share the reduced
/// positions.
/// \{
struct ColumnsShape {
  Layout outer, reduced;  ///< kept dimensions before the columns; the reduced ones
  int64_t columns, stride, tiles;
  int64_t n, part;  ///< part: positions for each of the grid's blocks along y
  int width;        ///< threads side by side; kThreads / width slices
  bool whole;
};

template <class E>
__device__ RowPack<E> read_columns(const ColumnsShape& shape, const E* from, int64_t count,
                                   int64_t i) {
  const E* at = from + shape.reduced.at(i);
  if (shape.whole && count >= kRowPack<E>) return *reinterpret_cast<const RowPack<E>*>(at);
  RowPack<E> pack;
#pragma unroll
  for (int j = 0; j < kRowPack<E>; ++j) pack.value[j] = j < count ? at[j * shape.stride] : E();
  return pack;
}

template <class Op, class E, class Acc>
__global__ void __launch_bounds__(kThreads, 2)
    reduce_columns_kernel(const E* x, const ColumnsShape shape, const Acc* centers,
                          const Results<Acc> results) {
  constexpr int kColumns = kRowPack<E>;
  __shared__ Acc parts[kColumns][kThreads];
  const int thread = static_cast<int>(threadIdx.x), slice = thread / shape.width;
  const int slices = kThreads / shape.width;
  const int64_t outer = blockIdx.x / shape.tiles, tile = blockIdx.x - outer * shape.tiles;
  const int64_t column = (tile * shape.width + thread % shape.width) * kColumns;
  const int64_t count = shape.columns - column, row = outer * shape.columns + column;
  Running<Op, Acc> running[kColumns];
  if (count > 0) {
    const E* from = x + shape.outer.at(outer) + column * shape.stride;
    Acc center[kColumns];
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      center[j] = centers != nullptr && j < count ? centers[row + j] : Acc(0);
    }
    const int64_t begin = blockIdx.y * shape.part;
    const int64_t end = begin + shape.part < shape.n ? begin + shape.part : shape.n;
    int64_t i = begin + slice;
    for (; i + 3 * slices < end; i += 4 * slices) {
      const RowPack<E> a = read_columns(shape, from, count, i);
      const RowPack<E> b = read_columns(shape, from, count, i + slices);
      const RowPack<E> c = read_columns(shape, from, count, i + 2 * slices);
      const RowPack<E> d = read_columns(shape, from, count, i + 3 * slices);
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        running[j].add(join_four<Op>(
            prepared<Op>(a.value[j], center[j]), prepared<Op>(b.value[j], center[j]),
            prepared<Op>(c.value[j], center[j]), prepared<Op>(d.value[j], center[j])));
      }
    }
    for (; i < end; i += slices) {
      const RowPack<E> a = read_columns(shape, from, count, i);
#pragma unroll
      for (int j = 0; j < kColumns; ++j) running[j].add(prepared<Op>(a.value[j], center[j]));
    }
  }
#pragma unroll
  for (int j = 0; j < kColumns; ++j) parts[j][thread] = running[j].total();
  for (int half = slices / 2; half > 0; half /= 2) {
    __syncthreads();
    if (slice >= half) continue;
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      parts[j][thread] = Op::join(parts[j][thread], parts[j][thread + half * shape.width]);
    }
  }
  if (slice != 0) return;
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    if (j < count) results.store((row + j) * gridDim.y + blockIdx.y, parts[j][thread]);
  }
}
/// \}

/// Blocks that keep every multiprocessor of the largest GPU busy. A constant: how a sum is split
/// must not depend on the GPU.
inline constexpr int64_t kManyBlocks = 4 * 132;

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <class Op, class E, class Acc>
void reduce_rows(const Reduction& r, const Acc* centers, Results<Acc> results);

/// Runs `reduce(results, parts)` and, if a row has several parts, combines their results.
template <class Op, class Acc, class Body>
void in_parts(const Reduction& r, int64_t parts, Results<Acc> results, Body&& reduce) {
  if (parts == 1) return reduce(results);
  const Array joined = Array::empty({r.rows, parts}, kDTypeOf<Acc>, r.device);
  reduce(Results<Acc>{joined.bytes(), joined.dtype()});
  const Layout kept({r.rows}, {parts}), reduced({parts}, {1});
  const Reduction again{r.op, joined.bytes(), kept, reduced, r.rows, parts, r.device};
  reduce_rows<typename Op::Join, Acc, Acc>(again, nullptr, results);
}

template <class Op, class E, class Acc>
void reduce_rows(const Reduction& r, const Acc* centers, Results<Acc> results) {
  RowsShape shape{r.kept, r.reduced, r.rows, r.n, r.n, {1}, false};
  shape.whole = packs_fit<E>(r.x, 0);
  for (int d = 0; d < r.kept.ndim; ++d) shape.whole &= r.kept.strides[d] % kRowPack<E> == 0;
  for (int d = 0; d + 1 < r.reduced.ndim; ++d)
    shape.whole &= r.reduced.strides[d] % kRowPack<E> == 0;
  const int last = r.reduced.ndim - 1;
  shape.whole &= last >= 0 && r.reduced.strides[last] == 1;
  shape.whole &= last <= 0 || r.reduced.sizes[last] % kRowPack<E> == 0;
  // A warp or less a row; a block where rows are long, or too few to be shared out.
  const bool alone = r.n >= 512 * kRowPack<E> || (r.rows < kManyBlocks && r.n >= 64 * kRowPack<E>);
  shape.team.width = alone ? kThreads : team_width<E>(r.n, 1, kWarp);
  int64_t parts = 1;
  if (alone && r.rows < kManyBlocks) {
    const int64_t most = ceil_div(r.n, 8 * kThreads * kRowPack<E>);
    parts = std::min(ceil_div(kManyBlocks, r.rows), most);
    shape.part = ceil_div(ceil_div(r.n, parts), kRowPack<E>) * kRowPack<E>;
    parts = ceil_div(r.n, shape.part);
  }
  in_parts<Op>(r, parts, results, [&](Results<Acc> to) {
    dim3 grid = team_blocks(r.rows, shape.team.width);
    grid.y = static_cast<unsigned>(parts);
    launch(r.op, reduce_rows_kernel<Op, E, Acc>, grid, dim3(kThreads), 0,
           static_cast<const E*>(r.x), shape, centers, to);
  });
}

template <class Op, class E, class Acc>
void reduce_columns(const Reduction& r, const Acc* centers, Results<Acc> results) {
  Layout outer = r.kept;
  const int last = --outer.ndim;
  ColumnsShape shape{outer, r.reduced, r.kept.sizes[last], r.kept.strides[last], 1, r.n, r.n,
                     1,     false};
  shape.whole = shape.stride == 1 && packs_fit<E>(r.x, 0);
  for (int d = 0; d < last; ++d) shape.whole &= outer.strides[d] % kRowPack<E> == 0;
  for (int d = 0; d < r.reduced.ndim; ++d) shape.whole &= r.reduced.strides[d] % kRowPack<E> == 0;
  // As many threads side by side as leave each slice some positions.
  const int64_t packs = ceil_div(shape.columns, kRowPack<E>);
  const int widest = r.n >= 32 ? kWarp : kThreads;
  while (shape.width < widest && shape.width < packs) shape.width *= 2;
  shape.tiles = ceil_div(packs, shape.width);
  const int64_t slices = kThreads / shape.width, blocks = r.rows / shape.columns * shape.tiles;
  int64_t parts = std::min(ceil_div(kManyBlocks, blocks), ceil_div(r.n, 8 * slices));
  shape.part = ceil_div(r.n, parts);
  parts = ceil_div(r.n, shape.part);
  in_parts<Op>(r, parts, results, [&](Results<Acc> to) {
    launch(r.op, reduce_columns_kernel<Op, E, Acc>,
           dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(parts)), dim3(kThreads), 0,
           static_cast<const E*>(r.x), shape, centers, to);
  });
}

/// `results` is contiguous, of Acc's dtype or, where that is float, of a half's.
template <class Op, class E, class Acc>
void reduce_as(const Reduction& r, const Array* center, const Array& results) {
  const auto* centers = center != nullptr ? reinterpret_cast<const Acc*>(center->bytes()) : nullptr;
  const Results<Acc> to{results.bytes(), results.dtype()};
  const int kept = r.kept.ndim - 1, reduced = r.reduced.ndim - 1;
  // Few columns of few elements would leave most of a block idle.
  const bool columns = kept >= 0 && reduced >= 0 &&
                       r.kept.strides[kept] < r.reduced.strides[reduced] &&
                       r.kept.sizes[kept] * r.n >= kThreads;
  if (columns) return reduce_columns<Op, E, Acc>(r, centers, to);
  reduce_rows<Op, E, Acc>(r, centers, to);
}

/// \name One element type each, in files of their own.
/// \{
void reduce_floats(core::ReduceKind op, DType dtype, const Reduction& r, const Array* center,
                   const Array& results);
void reduce_halves(core::ReduceKind op, DType dtype, const Reduction& r, const Array* center,
                   const Array& results);
/// Sums and products in int64; max and min of one type; any and all of everything.
void reduce_integers(core::ReduceKind op, DType dtype, const Reduction& r, const Array& results);
void reduce_truth(core::ReduceKind op, DType dtype, const Reduction& r, const Array& results);
/// \}

/// The reductions of numbers E in Acc, whose results round.
template <class E, class Acc>
void reduce_real(core::ReduceKind op, const Reduction& r, const Array* center,
                 const Array& results) {
  switch (op) {
    case core::ReduceKind::sum:
      return reduce_as<SumOf, E, Acc>(r, center, results);
    case core::ReduceKind::prod:
      return reduce_as<Product, E, Acc>(r, center, results);
    case core::ReduceKind::max:
      return reduce_as<Largest, E, Acc>(r, center, results);
    case core::ReduceKind::min:
      return reduce_as<Smallest, E, Acc>(r, center, results);
    case core::ReduceKind::sum_abs:
      return reduce_as<SumAbs, E, Acc>(r, center, results);
    case core::ReduceKind::sum_square:
      return reduce_as<SumSquare, E, Acc>(r, center, results);
    case core::ReduceKind::sum_deviation:
      return reduce_as<SumDeviation, E, Acc>(r, center, results);
    case core::ReduceKind::sum_exp:
      return reduce_as<SumExp, E, Acc>(r, center, results);
    default:
      fail(r.op, ": truth values have a reduction of their own");
  }
}

}  // namespace hero::cuda

// Reductions in one fixed order: the pairwise tree that NumPy uses (halves down to 128 elements,
// eight running lanes in a leaf), for any layout and any number of threads. See Higham, "The
// accuracy of floating point summation", SIAM J. Sci. Comput. 14 (1993).
#include <type_traits>
#include <vector>

#include <hero/core/cpu/block_io.h>
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/reduce/reduce_columns.h>
#include <hero/core/kernels/math.h>
#include <hero/core/kernels/wrapping.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

template <class T>
void magnitudes(const T* x, const T*, int64_t n, T* to) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = x[i] < T(0) ? wrapping_neg(x[i]) : x[i];
}
template <class T>
void exponentials(const T* x, const T* center, int64_t n, T* to) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = math::exp(x[i] - center[i]);
}

// n neighbours in memory.
template <class Op, class T>
[[gnu::noinline]] T reduce_neighbours(const T* x, int64_t n, T center) {
  constexpr int64_t kPart = std::is_integral_v<T> ? 16 * kBlock : kBlock;
  if (n > kPart) {
    const int64_t left = left_part(n);
    T value = reduce_neighbours<Op>(x, left, center);
    Op::join(value, reduce_neighbours<Op>(x + left, n - left, center));
    return value;
  }
  fetch_ahead(reinterpret_cast<const std::byte*>(x), n * int64_t{sizeof(T)});
  return reduce_tree<Op>(x, n, center);
}
template <class Op, class T>
T reduce_memory(const T* x, int64_t n, T center) {
  if constexpr (std::is_floating_point_v<T> && !std::is_same_v<typename Op::OfNumbers, Op>) {
    T value;
    if (choose<Op>(x, n, value)) return value;
  }
  return reduce_neighbours<Op>(x, n, center);
}

// One row or a part of it: n terms, which have one centre; `centers` repeats it.
template <class Op, class T>
[[gnu::noinline]] T reduce_row(const Terms<T>& terms, int64_t begin, int64_t n, const T* centers) {
  if (const T* memory = terms.find(begin, n)) return reduce_memory<Op>(memory, n, centers[0]);
  if (n > kBlock) {
    const int64_t left = left_part(n);
    T value = reduce_row<Op>(terms, begin, left, centers);
    Op::join(value, reduce_row<Op>(terms, begin + left, n - left, centers));
    return value;
  }
  alignas(64) T room[kBlock];
  return reduce_tree<Op>(terms.read(begin, n, centers, room), n, centers[0]);
}

// Rows of n terms each, of which threads share single ones if these are few and long.
template <class Op, class T>
void reduce_rows(const Terms<T>& terms, int64_t rows, int64_t n, const T* center, T* results) {
  std::vector<std::pair<int64_t, int64_t>> nodes;
  const int64_t most = rows < 8 ? kGrain : n;
  split_rows(0, n, most, nodes);
  const auto node_count = static_cast<int64_t>(nodes.size());
  const bool whole = node_count == 1;
  std::vector<T> parts(whole ? 0 : static_cast<size_t>(rows * node_count));
  T* const to = whole ? results : parts.data();
  const T* const memory = whole ? terms.find(0, rows * n) : nullptr;
  parallel_for(rows * node_count, std::max<int64_t>(1, kGrain / nodes[0].second),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end && memory; ++r) {
                   to[r] = reduce_memory<Op>(memory + r * n, n, center ? center[r] : T(0));
                 }
                 if (memory) return;
                 T centers[kBlock] = {};
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t r = whole ? task : task / node_count;
                   const auto [first, count] = nodes[static_cast<size_t>(task - r * node_count)];
                   if (center) std::fill_n(centers, std::min(count, kBlock), center[r]);
                   to[task] = reduce_row<Op>(terms, r * n + first, count, centers);
                 }
               });
  for (int64_t r = 0; r < rows && !whole; ++r) {
    T* next = parts.data() + r * node_count;
    results[r] = *join_rows(n, most, 1, next, join_neighbours<Op, T>);
  }
}

// The order of dimensions in which a reduction is a matter of rows or of columns: dimensions that
// are kept, those that are reduced, and the columns.
struct ReducedLayout {
  Dims order;
  int columns = 0;           // how many dimensions they have
  int64_t n = 1, inner = 1;  // elements reduced to one, columns

  ReducedLayout(const Array& x, const Array& out);
};

ReducedLayout::ReducedLayout(const Array& x, const Array& out) {
  Dims reduced, beside;
  const auto is_reduced = [&](int i) { return out.shape()[i] == 1 && x.shape()[i] != 1; };
  // Kept dimensions that lie densely in memory, the innermost one last.
  const auto next = [&] {
    for (int i = 0; i < x.ndim(); ++i) {
      if (x.shape()[i] > 1 && !is_reduced(i) && x.strides()[i] == inner && !beside.contains(i)) {
        return i;
      }
    }
    return -1;
  };
  for (int i = next(); i >= 0; i = next()) {
    beside.insert(0, i);
    inner *= x.shape()[i];
  }
  for (int i = 0; i < x.ndim(); ++i) {
    if (is_reduced(i)) n *= x.shape()[i];
  }
  constexpr int64_t kFew = 4, kMany = 64;
  if (inner < (n < kMany ? kFew : 2)) {  // each column is read on its own
    beside = {};
    inner = 1;
  }
  for (int i = 0; i < x.ndim(); ++i) {
    if (is_reduced(i)) {
      reduced.push_back(i);
    } else if (!beside.contains(i)) {
      order.push_back(i);
    }
  }
  columns = beside.size();
  for (const Dims& more : {reduced, beside}) {
    for (int64_t i : more) order.push_back(i);
  }
}

// x's dimensions before the last ones: the first elements of rows of columns.
Array starts_of(const Array& x, int columns) {
  Shape shape = x.shape();
  Dims strides = x.strides();
  for (int i = 0; i < columns; ++i) {
    shape.pop_back();
    strides.pop_back();
  }
  return Array(x.storage_ref(), shape, strides, x.offset(), x.dtype());
}

// x in memory of its own where rows lie across it, so that a row would touch a cache line for each
// of its elements.
Array without_lines_across(const Array& x) {
  constexpr int64_t kSmall = 32768;
  const bool dense = std::count(x.strides().begin(), x.strides().end(), 1) > 0;
  const bool across = x.ndim() > 0 && x.strides().back() > 16 && x.shape().back() > 1;
  return dense && across && x.numel() > kSmall ? x.contiguous() : x;
}

// What a reduction reads and where its results go, whatever it is.
template <class T>
class Reduction {
 public:
  Reduction(const Array& x, const Array* center, const Array& out, DType compute,
            MakeTerms<T> make);
  template <class Op>
  void run() const;

 private:
  ReducedLayout layout_;
  DType compute_;
  int64_t count_;  // results
  BlockWriter writer_;
  std::vector<T> spare_, centers_;
  Array x_;
  Terms<T> terms_;
  T* results_;
};

template <class T>
Reduction<T>::Reduction(const Array& x, const Array* center, const Array& out, DType compute,
                        MakeTerms<T> make)
    : layout_(x, out),
      compute_(compute),
      count_(out.numel()),
      writer_(out.permute(layout_.order), compute),
      spare_(writer_.direct() ? 0 : static_cast<size_t>(count_)),
      centers_(center ? static_cast<size_t>(count_) : 0),
      x_(layout_.columns > 0 ? x.permute(layout_.order)
                             : without_lines_across(x.permute(layout_.order))),
      terms_(x_, compute, make) {
  // Results are gathered contiguously first; conversion and layout happen in one commit.
  results_ = reinterpret_cast<T*>(writer_.target(0, reinterpret_cast<std::byte*>(spare_.data())));
  if (center == nullptr) return;
  const Terms<T> all(center->permute(layout_.order), compute, nullptr);
  for (int64_t at = 0; at < count_; at += kBlock) {
    const int64_t some = std::min(kBlock, count_ - at);
    T* to = centers_.data() + at;
    std::copy_n(all.read(at, some, nullptr, to), some, to);
  }
}

template <class T>
template <class Op>
void Reduction<T>::run() const {
  const T* center = centers_.empty() ? nullptr : centers_.data();
  if (layout_.columns > 0) {
    const RowStarts starts(starts_of(x_, layout_.columns));
    const auto reduce = [&]<class E>(const E* memory) {
      reduce_columns(kColumnKernels<Op, T, E>, terms_, memory, starts, count_ / layout_.inner,
                     layout_.n, layout_.inner, center, results_);
    };
    const BFloat16* halves = nullptr;
    // Sums of halves are gradients of biases.
    if constexpr (std::is_same_v<Op, Add> && std::is_same_v<T, float>) {
      halves = terms_.template memory_of<BFloat16>(kBFloat16);
      if (halves) reduce(halves);
    }
    if (!halves) reduce(terms_.template memory_of<T>(compute_));
  } else {
    reduce_rows<Op>(terms_, count_, layout_.n, center, results_);
  }
  writer_.commit(0, count_, reinterpret_cast<const std::byte*>(results_));
}

template <class T>
void take_extreme(ReduceKind op, const Array& x, const Array& out, DType compute) {
  const Reduction<T> reduction(x, nullptr, out, compute, nullptr);
  // of truth values, which are bytes, any is the largest one
  const bool largest = op == ReduceKind::max || op == ReduceKind::any;
  largest ? reduction.template run<Larger>() : reduction.template run<Smaller>();
}

template <class T>
void add_up(ReduceKind op, const Array& x, const Array* center, const Array& out, DType compute) {
  MakeTerms<T> make = op == ReduceKind::sum_abs ? magnitudes<T> : nullptr;
  if constexpr (std::is_floating_point_v<T>) {
    if (op == ReduceKind::sum_exp) make = exponentials<T>;
  }
  const Reduction<T> reduction(x, center, out, compute, make);
  if (op == ReduceKind::prod) return reduction.template run<Multiply>();
  if constexpr (std::is_floating_point_v<T>) {
    if (op == ReduceKind::sum_square) return reduction.template run<AddSquares>();
    if (op == ReduceKind::sum_deviation) return reduction.template run<AddSquaredDeviations>();
  } else {
    check(op == ReduceKind::sum || op == ReduceKind::sum_abs, "reduce: kind ", static_cast<int>(op),
          " of integers; they are converted to floats before");
  }
  reduction.template run<Add>();
}

}  // namespace

void BasicKernels::run(const call::Reduce& call) {
  if (call.out.numel() == 0) return;
  if (call.x.numel() == 0) {
    return run(
        call::Fill{call.out, call.op == ReduceKind::prod || call.op == ReduceKind::all ? 1 : 0});
  }
  // any and all read every input as a truth value, stored as a byte.
  if (call.op == ReduceKind::any || call.op == ReduceKind::all)
    return take_extreme<uint8_t>(call.op, call.x, call.out, kBool);
  const bool chooses = call.op == ReduceKind::max || call.op == ReduceKind::min;
  switch (call.out.dtype()) {
    case DType::float64:
      return chooses ? take_extreme<double>(call.op, call.x, call.out, kFloat64)
                     : add_up<double>(call.op, call.x, call.center, call.out, kFloat64);
    case DType::int64:
      return chooses ? take_extreme<int64_t>(call.op, call.x, call.out, kInt64)
                     : add_up<int64_t>(call.op, call.x, call.center, call.out, kInt64);
    case DType::int32:
    case DType::uint8:
    case DType::boolean:
      break;
    default:
      return chooses ? take_extreme<float>(call.op, call.x, call.out, kFloat32)
                     : add_up<float>(call.op, call.x, call.center, call.out, kFloat32);
  }
  if (chooses && call.out.dtype() == kInt32)
    return take_extreme<int32_t>(call.op, call.x, call.out, kInt32);
  if (chooses) return take_extreme<uint8_t>(call.op, call.x, call.out, kUInt8);
  // Narrow integers wrap: they are the lowest bits of int64's.
  const Array wide = Array::empty(call.out.shape(), kInt64);
  add_up<int64_t>(call.op, call.x.to(call.out.dtype()), call.center, wide, kInt64);
  run(call::Copy{wide, call.out});
}

}  // namespace hero::core::cpu

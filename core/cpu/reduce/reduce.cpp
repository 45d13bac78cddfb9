// Reductions in one fixed order: the pairwise tree that NumPy uses (halves down to 128 elements,
// eight running lanes in a leaf), for any layout and any number of threads. See Higham, "The
// accuracy of floating point summation", SIAM J. Sci. Comput. 14 (1993).
#include <limits>
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

struct Plain {
  template <class T>
  static T pre(T x, T) {
    return x;
  }
};
struct Plus {
  template <class T>
  static T init() {
    return T(0);
  }
  template <class T>
  static T combine(T a, T b) {
    return wrapping_add(a, b);
  }
};
struct SumOf : Plus, Plain {};
struct SumAbs : Plus {
  template <class T>
  static T pre(T x, T) {
    return x < T(0) ? wrapping_neg(x) : x;
  }
};
struct SumSquare : Plus {
  template <class T>
  static T pre(T x, T) {
    return x * x;
  }
};
struct SumDeviation : Plus {
  template <class T>
  static T pre(T x, T center) {
    const T deviation = x - center;
    return deviation * deviation;
  }
};
struct SumExp : Plus {
  template <class T>
  static T pre(T x, T center) {
    return math::exp(x - center);
  }
};
struct ProductOfAll : Plain {
  template <class T>
  static T init() {
    return T(1);
  }
  template <class T>
  static T combine(T a, T b) {
    return wrapping_mul(a, b);
  }
};
struct Largest : Plain {
  template <class T>
  static T init() {
    return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::lowest();
  }
  template <class T>
  static T combine(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Smallest : Plain {
  template <class T>
  static T init() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                                : std::numeric_limits<T>::max();
  }
  template <class T>
  static T combine(T a, T b) {
    return a < b || a != a ? a : b;
  }
};
struct Any : Plain {
  template <class T>
  static T init() {
    return T(0);
  }
  template <class T>
  static T combine(T a, T b) {
    return static_cast<T>((a != T(0)) | (b != T(0)));
  }
};
struct All : Plain {
  template <class T>
  static T init() {
    return T(1);
  }
  template <class T>
  static T combine(T a, T b) {
    return static_cast<T>((a != T(0)) & (b != T(0)));
  }
};

template <class Op, class T>
T reduce_leaf(const T* x, int64_t n, T center) {
  if (n < kLanes) {
    T value = n > 0 ? Op::pre(x[0], center) : Op::template init<T>();
    for (int64_t i = 1; i < n; ++i) value = Op::combine(value, Op::pre(x[i], center));
    return value;
  }
  T lane[kLanes];
  for (int j = 0; j < kLanes; ++j) lane[j] = Op::pre(x[j], center);
  int64_t i = kLanes;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lane[j] = Op::combine(lane[j], Op::pre(x[i + j], center));
  }
  T value = join_lanes<Op>(lane);
  for (; i < n; ++i) value = Op::combine(value, Op::pre(x[i], center));
  return value;
}

// One row: `n` elements that follow each other in the reader's order.
template <class Op, class T>
T reduce_row(const BlockReader& reader, int64_t begin, int64_t n, T center) {
  if (n > kLeaf) {
    const int64_t left = left_part(n);
    const T first = reduce_row<Op, T>(reader, begin, left, center);
    return Op::combine(first, reduce_row<Op, T>(reader, begin + left, n - left, center));
  }
  Scratch scratch;
  const auto* x = reinterpret_cast<const T*>(reader.read(begin, n, scratch.bytes));
  return reduce_leaf<Op, T>(x, n, center);
}

template <class Op, class T>
T join_parts(int64_t n, const std::vector<T>& values, size_t& next) {
  if (n <= kGrain) return values[next++];
  const int64_t left = left_part(n);
  const T first = join_parts<Op, T>(left, values, next);
  return Op::combine(first, join_parts<Op, T>(n - left, values, next));
}

template <class Op, class T>
T reduce_long_row(const BlockReader& reader, int64_t begin, int64_t n, T center) {
  std::vector<std::pair<int64_t, int64_t>> parts;  // nodes that threads reduce on their own
  split_rows(begin, n, kGrain, parts);
  std::vector<T> values(parts.size());
  parallel_for(static_cast<int64_t>(parts.size()), 1, [&](int64_t from, int64_t to) {
    for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i) {
      values[i] = reduce_row<Op, T>(reader, parts[i].first, parts[i].second, center);
    }
  });
  size_t next = 0;
  return join_parts<Op, T>(n, values, next);
}

// A reduction laid out as [outer, n, inner] of the input's own order, or as rows of a permuted
// view.
struct ReducedLayout {
  bool columns = false;
  Array x;  // rows: kept dimensions first
  int64_t outer = 1, n = 1, inner = 1;
};

ReducedLayout lay_out(const Array& x, const Array& out) {
  ReducedLayout layout;
  Dims kept, reduced;
  int first = -1, last = -1;
  for (int i = 0; i < x.ndim(); ++i) {
    if (out.shape()[i] == 1 && x.shape()[i] != 1) {
      reduced.push_back(i);
      if (first < 0) first = i;
      last = i;
    } else {
      kept.push_back(i);
    }
  }
  for (int i = 0; i < x.ndim(); ++i) {
    if (i < first) layout.outer *= x.shape()[i];
    if (i > last) layout.inner *= x.shape()[i];
  }
  // One run of reduced dimensions before the last, in an array whose last dimension is dense.
  const bool one_run = first >= 0 && last - first + 1 == reduced.size();
  const bool dense = x.ndim() > 0 && x.strides().back() == 1;
  layout.n = std::max<int64_t>(x.numel(), 1) / std::max<int64_t>(out.numel(), 1);
  layout.columns = one_run && dense && layout.inner >= 4 && x.numel() > 0;
  for (int64_t dim : reduced) kept.push_back(dim);
  layout.x = layout.columns ? x : x.permute(kept);
  return layout;
}

template <class Op, class T>
void reduce_as(const Array& x, const Array* center, const Array& out, DType compute) {
  const int64_t rows = out.numel();
  if (rows == 0) return;
  const BlockWriter writer(out, compute);
  // Results are gathered contiguously first; conversion and layout happen in one commit.
  std::vector<T> spare(writer.direct() ? 0 : static_cast<size_t>(rows));
  T* results = reinterpret_cast<T*>(writer.target(0, reinterpret_cast<std::byte*>(spare.data())));
  std::vector<T> centers;
  if (center) {
    centers.resize(static_cast<size_t>(rows));
    const BlockReader reader(*center, center->shape(), compute);
    for (int64_t at = 0; at < rows; at += kBlock) {
      const int64_t count = std::min(kBlock, rows - at);
      Scratch scratch;
      const auto* block = reader.read(at, count, scratch.bytes);
      std::memcpy(centers.data() + at, block, static_cast<size_t>(count) * sizeof(T));
    }
  }
  if (x.numel() == 0) {
    std::fill_n(results, rows, Op::template init<T>());
  } else {
    const ReducedLayout layout = lay_out(x, out);
    const BlockReader reader(layout.x, layout.x.shape(), compute);
    const int64_t n = layout.n;
    if (layout.columns) {
      const T* const center_of = center ? centers.data() : nullptr;
      const auto reduce = [&](const auto* memory) {
        reduce_columns<Op, T>(reader, memory, layout.outer, n, layout.inner, center_of, results);
      };
      const std::byte* halves = nullptr;
      // Sums of halves are gradients of biases.
      if constexpr (std::is_same_v<Op, SumOf> && std::is_same_v<T, float>) {
        halves = reader.in_place(kBFloat16);
        if (halves) reduce(reinterpret_cast<const BFloat16*>(halves));
      }
      const std::byte* const memory = reader.direct() ? reader.read(0, 1, nullptr) : nullptr;
      if (!halves) reduce(reinterpret_cast<const T*>(memory));
    } else if (rows < 8 && n > kGrain) {
      for (int64_t r = 0; r < rows; ++r) {
        results[r] = reduce_long_row<Op, T>(reader, r * n, n,
                                            center ? centers[static_cast<size_t>(r)] : T(0));
      }
    } else {
      parallel_for(rows, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          results[r] =
              reduce_row<Op, T>(reader, r * n, n, center ? centers[static_cast<size_t>(r)] : T(0));
        }
      });
    }
  }
  writer.commit(0, rows, reinterpret_cast<const std::byte*>(results));
}

template <class T>
void reduce_op(ReduceKind op, const Array& x, const Array* center, const Array& out,
               DType compute) {
  switch (op) {
    case ReduceKind::sum:
      return reduce_as<SumOf, T>(x, center, out, compute);
    case ReduceKind::prod:
      return reduce_as<ProductOfAll, T>(x, center, out, compute);
    case ReduceKind::max:
      return reduce_as<Largest, T>(x, center, out, compute);
    case ReduceKind::min:
      return reduce_as<Smallest, T>(x, center, out, compute);
    case ReduceKind::any:
    case ReduceKind::all:
      return;  // of truth values: CpuBackend::reduce
    case ReduceKind::sum_abs:
      return reduce_as<SumAbs, T>(x, center, out, compute);
    case ReduceKind::sum_square:
    case ReduceKind::sum_deviation:
    case ReduceKind::sum_exp:
      break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (op == ReduceKind::sum_square) return reduce_as<SumSquare, T>(x, center, out, compute);
    if (op == ReduceKind::sum_exp) return reduce_as<SumExp, T>(x, center, out, compute);
    return reduce_as<SumDeviation, T>(x, center, out, compute);
  } else {
    fail("reduce: kind ", static_cast<int>(op),
         " of integers; they are converted to floats before");
  }
}

}  // namespace

void CpuBackend::reduce(ReduceKind op, const Array& x, const Array* center, const Array& out) {
  // any and all read every input as a truth value, stored as a byte.
  if (op == ReduceKind::any) return reduce_as<Any, uint8_t>(x, center, out, kBool);
  if (op == ReduceKind::all) return reduce_as<All, uint8_t>(x, center, out, kBool);
  switch (out.dtype()) {
    case DType::float64:
      return reduce_op<double>(op, x, center, out, kFloat64);
    case DType::int64:
      return reduce_op<int64_t>(op, x, center, out, kInt64);
    case DType::int32:
      return reduce_op<int32_t>(op, x, center, out, kInt32);
    case DType::uint8:
    case DType::boolean:
      return reduce_op<uint8_t>(op, x, center, out, kUInt8);
    default:
      return reduce_op<float>(op, x, center, out, kFloat32);
  }
}

}  // namespace hero::core::cpu

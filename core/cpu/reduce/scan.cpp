// Running sums and products along a dimension: several rows, or a row of columns side by side, at a
// time, so that no addition waits for the one before it.
#include <functional>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/interleaved_lines.h>
#include <hero/core/cpu/lines.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/kernels/wrapping.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

// Floats accumulate in double: a running sum cannot be a tree, and the error would grow with the
// length.
template <class T>
using Running = std::conditional_t<std::is_same_v<T, float>, double, T>;

struct Added {
  static constexpr int kFirst = 0;
  template <class A>
  static A join(A a, A b) {
    return wrapping_add(a, b);
  }
};
struct Multiplied {
  static constexpr int kFirst = 1;
  template <class A>
  static A join(A a, A b) {
    return wrapping_mul(a, b);
  }
};

// kRows rows of n, one behind the other; `out` may be `x`.
template <class Join, int kRows, class T>
[[gnu::noinline]] void scan_together(const T* x, int64_t n, Direction direction, T* out) {
  Running<T> value[kRows];
  std::fill_n(value, kRows, Running<T>(Join::kFirst));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = position_of_step(i, n, direction);
    for (int r = 0; r < kRows; ++r) {
      value[r] = Join::join(value[r], static_cast<Running<T>>(x[r * n + at]));
      out[r * n + at] = static_cast<T>(value[r]);
    }
  }
}

template <class Join, class T>
void scan_rows(Direction direction, const Array& x, int dim, const Array& out) {
  constexpr int64_t kTogether = std::is_integral_v<T> ? 1 : 4;  // integers are added at once
  const RowReader<T> reader(x, dim);
  const RowWriter<T> writer(out, dim);
  const int64_t n = reader.length();
  parallel_for(reader.count(), reader.grain(), [&](int64_t begin, int64_t end) {
    const Workspace<T> in(reader.buffer_size()), result(writer.buffer_size());
    for (int64_t at = begin; at < end; at += reader.group()) {
      const int64_t count = std::min(reader.group(), end - at);
      const T* rows = reader.read(at, count, in.data());
      T* target = writer.target(at, result.data());
      int64_t r = 0;
      for (; r + kTogether <= count; r += kTogether) {
        scan_together<Join, kTogether>(rows + r * n, n, direction, target + r * n);
      }
      for (; r < count; ++r) scan_together<Join, 1>(rows + r * n, n, direction, target + r * n);
      writer.commit(at, count, target);
    }
  });
}

template <class Join, class T>
[[gnu::noinline]] void scan_row(const T* x, int64_t width, Running<T>* running, T* out) {
#pragma GCC ivdep
  for (int64_t c = 0; c < width; ++c) {
    running[c] = Join::join(running[c], static_cast<Running<T>>(x[c]));
    out[c] = static_cast<T>(running[c]);
  }
}

template <class Join, class T>
void scan_columns(Direction direction, const Array& x, const ColumnLayout& layout,
                  const Array& out) {
  const ColumnPieces<T> reader(x, layout), writer(out, layout);
  layout.share([&](int64_t begin, int64_t end) {
    const auto most = static_cast<size_t>(layout.width);
    std::vector<T> in(most), result(most);
    std::vector<Running<T>> value(most);
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t n = layout.n, width = layout.columns_of(piece);
      std::byte *const source = reader.start(piece), *const target = writer.start(piece);
      std::fill(value.begin(), value.end(), Running<T>(Join::kFirst));
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = position_of_step(i, n, direction);
        reader.fetch_row(source, direction == Direction::forward ? at + 1 : at - 1, width);
        const T* from = reader.read_row(source, at, width, in.data());
        T* to = writer.row_target(target, at, result.data());
        scan_row<Join>(from, width, value.data(), to);
        writer.store_row(target, at, width, to);
      }
    }
  });
}

template <class Join, class T>
void scan_as(Direction direction, const Array& x, int dim, const Array& out) {
  if (const ColumnLayout layout(dim, Passes::one, {&x, &out}); layout) {
    return scan_columns<Join, T>(direction, x, layout, out);
  }
  scan_rows<Join, T>(direction, x, dim, out);
}

// Whether the best element so far stays beside x: a NaN is beaten by a later one alone.
template <class Beats, class T>
bool stays(T best, T x) {
  return Beats()(best, x) | ((best != best) & (x == x));
}

template <class Beats, int kRows, class T>
[[gnu::noinline]] void best_so_far(const T* x, int64_t n, T* values, int64_t* positions) {
  T best[kRows];
  int64_t index[kRows] = {};
  for (int r = 0; r < kRows; ++r) best[r] = x[r * n];
  for (int64_t i = 0; i < n; ++i) {
    for (int r = 0; r < kRows; ++r) {
      const T next = x[r * n + i];
      const bool same = stays<Beats>(best[r], next);
      best[r] = same ? best[r] : next;
      index[r] = same ? index[r] : i;
      values[r * n + i] = best[r];
      positions[r * n + i] = index[r];
    }
  }
}

template <class Beats, class T>
void running_rows(const Array& x, int dim, const Array& values, const Array& positions) {
  constexpr int64_t kTogether = 4;
  const RowReader<T> reader(x, dim);
  const RowWriter<T> value_writer(values, dim);
  const RowWriter<int64_t> writer(positions, dim);
  const int64_t n = reader.length();
  parallel_for(reader.count(), reader.grain(), [&](int64_t begin, int64_t end) {
    const Workspace<T> in(reader.buffer_size()), value_buffer(value_writer.buffer_size());
    const Workspace<int64_t> buffer(writer.buffer_size());
    for (int64_t at = begin; at < end; at += reader.group()) {
      const int64_t count = std::min(reader.group(), end - at);
      const T* rows = reader.read(at, count, in.data());
      T* value = value_writer.target(at, value_buffer.data());
      int64_t* position = writer.target(at, buffer.data());
      int64_t r = 0;
      for (; r + kTogether <= count; r += kTogether) {
        best_so_far<Beats, kTogether>(rows + r * n, n, value + r * n, position + r * n);
      }
      for (; r < count; ++r) {
        best_so_far<Beats, 1>(rows + r * n, n, value + r * n, position + r * n);
      }
      value_writer.commit(at, count, value);
      writer.commit(at, count, position);
    }
  });
}

}  // namespace

void CpuBackend::run(const call::RunningExtremes& call) {
  if (call.x.numel() == 0) return;
  dispatch_compute(call.x.dtype(), [&]<class T>(TypeTag<T>) {
    call.op == ArgOp::max
        ? running_rows<std::greater<T>, T>(call.x, call.dim, call.values, call.positions)
        : running_rows<std::less<T>, T>(call.x, call.dim, call.values, call.positions);
  });
}

void CpuBackend::run(const call::Scan& call) {
  if (call.out.numel() == 0) return;
  dispatch_compute(call.out.dtype(), [&]<class T>(TypeTag<T>) {
    call.op == ScanOp::sum ? scan_as<Added, T>(call.direction, call.x, call.dim, call.out)
                           : scan_as<Multiplied, T>(call.direction, call.x, call.dim, call.out);
  });
}

}  // namespace hero::core::cpu

// Softmax along a dimension, for one row at a time, or for a piece of many columns side by side:
// the row or piece stays in the cache while it is read for its largest element, its sum of
// exponentials and its result.
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/lines.h>
#include <hero/core/cpu/nn/softmax_columns.h>
#include <hero/core/cpu/reduce/row_sums.h>
#include <hero/core/cpu/workspace.h>
#include <hero/core/kernels/math.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

template <class T>
[[gnu::noinline]] void exponentials(const T* x, T top, int64_t n, T* to) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = softmax_term(x[i] - top);
}

// `out` may be `x` in all four rows.
template <class T>
void softmax_row(const T* x, int64_t n, T* out) {
  const T top = row_max(x, n);
  const T sum = sum_blocks<T>(n, [&](int64_t at, int64_t count) {
    exponentials(x + at, top, count, out + at);
    return block_sum(out + at, count);
  });
  const T scale = T(1) / sum;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] *= scale;
}

template <class T>
void log_softmax_row(const T* x, int64_t n, T* out) {
  T terms[kBlock];
  const T top = row_max(x, n);
  const T sum = sum_blocks<T>(n, [&](int64_t at, int64_t count) {
    exponentials(x + at, top, count, terms);
    return block_sum(terms, count);
  });
  const T shift = math::log(sum);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - top) - shift;
}

template <class T>
void softmax_row_backward(const T* g, const T* y, int64_t n, T* out) {
  T terms[kBlock];
  const T sum = sum_blocks<T>(n, [&](int64_t at, int64_t count) {
    for (int64_t i = 0; i < count; ++i) terms[i] = g[at + i] * y[at + i];
    return block_sum(terms, count);
  });
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = y[i] * (g[i] - sum);
}

template <class T>
void log_softmax_row_backward(const T* g, const T* y, int64_t n, T* out) {
  const T sum =
      sum_blocks<T>(n, [&](int64_t at, int64_t count) { return block_sum(g + at, count); });
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = g[i] - math::exp_in_vectors(y[i]) * sum;
}

template <class T>
void softmax_columns(SoftmaxKind kind, const Array& x, const ColumnLayout& layout,
                     const Array& out) {
  const ColumnPieces<T> reader(x, layout), writer(out, layout);
  layout.share([&](int64_t begin, int64_t end) {
    SoftmaxColumns<T> columns(layout.n, layout.width);
    const Workspace<T> in(reader.room()), result(writer.room());
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t width = layout.columns_of(piece);
      const RowsOf<const T> rows = reader.read(piece, in.data());
      const RowsOf<T> target = writer.target(piece, result.data());
      if (kind == SoftmaxKind::softmax) {
        columns.softmax(rows, width, target);
      } else {
        columns.log_softmax(rows, width, target);
      }
      writer.store(piece, target);
    }
  });
}

template <class T>
void softmax_columns_backward(SoftmaxKind kind, const Array& g, const Array& y,
                              const ColumnLayout& layout, const Array& out) {
  const ColumnPieces<T> gradients(g, layout), outputs(y, layout), writer(out, layout);
  layout.share([&](int64_t begin, int64_t end) {
    SoftmaxColumns<T> columns(layout.n, layout.width);
    const Workspace<T> in_g(gradients.room()), in_y(outputs.room()), result(writer.room());
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t width = layout.columns_of(piece);
      const RowsOf<const T> rows_g = gradients.read(piece, in_g.data());
      const RowsOf<const T> rows_y = outputs.read(piece, in_y.data());
      const RowsOf<T> target = writer.target(piece, result.data());
      if (kind == SoftmaxKind::softmax) {
        columns.softmax_backward(rows_g, rows_y, width, target);
      } else {
        columns.log_softmax_backward(rows_g, rows_y, width, target);
      }
      writer.store(piece, target);
    }
  });
}

template <class T>
void softmax_as(SoftmaxKind kind, const Array& x, int dim, const Array& out) {
  if (const ColumnLayout layout(dim, Passes::several, {&x, &out}); layout) {
    return softmax_columns<T>(kind, x, layout, out);
  }
  const RowReader<T> reader(x, dim);
  const RowWriter<T> writer(out, dim);
  const int64_t n = reader.length();
  parallel_for(reader.count(), reader.grain(), [&](int64_t begin, int64_t end) {
    const Workspace<T> in(reader.buffer_size()), result(writer.buffer_size());
    for (int64_t at = begin; at < end; at += reader.group()) {
      const int64_t count = std::min(reader.group(), end - at);
      const T* rows = reader.read(at, count, in.data());
      T* target = writer.target(at, result.data());
      for (int64_t r = 0; r < count; ++r) {
        if (kind == SoftmaxKind::softmax) {
          softmax_row(rows + r * n, n, target + r * n);
        } else {
          log_softmax_row(rows + r * n, n, target + r * n);
        }
      }
      writer.commit(at, count, target);
    }
  });
}

template <class T>
void softmax_backward_as(SoftmaxKind kind, const Array& g, const Array& y, int dim,
                         const Array& out) {
  // A gradient that repeats a number, as that of a sum does, is spread out first.
  if (const ColumnLayout layout(dim, Passes::several, {&y, &out}); layout) {
    const bool fits = ColumnLayout(dim, Passes::several, {&y, &out, &g}).inner == layout.inner;
    return softmax_columns_backward<T>(kind, fits ? g : g.contiguous(), y, layout, out);
  }
  const RowReader<T> gradients(g, dim), outputs(y, dim);
  const RowWriter<T> writer(out, dim);
  const int64_t n = outputs.length();
  parallel_for(outputs.count(), outputs.grain(), [&](int64_t begin, int64_t end) {
    const Workspace<T> in_g(gradients.buffer_size()), in_y(outputs.buffer_size());
    const Workspace<T> result(writer.buffer_size());
    for (int64_t at = begin; at < end; at += outputs.group()) {
      const int64_t count = std::min(outputs.group(), end - at);
      const T* rows_g = gradients.read(at, count, in_g.data());
      const T* rows_y = outputs.read(at, count, in_y.data());
      T* target = writer.target(at, result.data());
      for (int64_t r = 0; r < count; ++r) {
        if (kind == SoftmaxKind::softmax) {
          softmax_row_backward(rows_g + r * n, rows_y + r * n, n, target + r * n);
        } else {
          log_softmax_row_backward(rows_g + r * n, rows_y + r * n, n, target + r * n);
        }
      }
      writer.commit(at, count, target);
    }
  });
}

}  // namespace

void CpuBackend::run(const call::Softmax& call) {
  if (call.out.numel() == 0) return;
  if (call.out.dtype() == kFloat64)
    return softmax_as<double>(call.kind, call.x, call.dim, call.out);
  softmax_as<float>(call.kind, call.x, call.dim, call.out);
}

void CpuBackend::run(const call::SoftmaxBack& call) {
  if (call.out.numel() == 0) return;
  if (call.out.dtype() == kFloat64)
    return softmax_backward_as<double>(call.kind, call.g, call.y, call.dim, call.out);
  softmax_backward_as<float>(call.kind, call.g, call.y, call.dim, call.out);
}

}  // namespace hero::core::cpu

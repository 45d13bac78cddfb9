// Linear recurrences along a dimension, in double, an element after the other.
#include <algorithm>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/interleaved_lines.h>
#include <hero/core/cpu/lines.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

// kRows rows of n, one behind the other, side by side, so that no step waits for the one before it.
template <int kRows, class T>
void rows_together(const T* a, const T* b, int64_t n, Direction direction, T* out) {
  double value[kRows] = {}, factor[kRows] = {};
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = position_of_step(i, n, direction);
    for (int r = 0; r < kRows; ++r) {
      value[r] = double{b[r * n + at]} + factor[r] * value[r];
      factor[r] = double{a[r * n + at]};
      out[r * n + at] = static_cast<T>(value[r]);
    }
  }
}

template <class T>
void along_rows(const Array& a, const Array& b, int dim, Direction direction, const Array& out) {
  constexpr int64_t kTogether = 4;
  const RowReader<T> factors(a, dim), terms(b, dim);
  const RowWriter<T> writer(out, dim);
  const int64_t n = terms.length();
  parallel_for(terms.count(), terms.grain(), [&](int64_t begin, int64_t end) {
    std::vector<T> in_a(factors.buffer_size()), in_b(terms.buffer_size());
    std::vector<T> result(writer.buffer_size());
    for (int64_t at = begin; at < end; at += terms.group()) {
      const int64_t count = std::min(terms.group(), end - at);
      const T* rows_a = factors.read(at, count, in_a.data());
      const T* rows_b = terms.read(at, count, in_b.data());
      T* target = writer.target(at, result.data());
      int64_t r = 0;
      for (; r + kTogether <= count; r += kTogether) {
        rows_together<kTogether>(rows_a + r * n, rows_b + r * n, n, direction, target + r * n);
      }
      for (; r < count; ++r) {
        rows_together<1>(rows_a + r * n, rows_b + r * n, n, direction, target + r * n);
      }
      writer.commit(at, count, target);
    }
  });
}

template <class T>
void along_columns(const Array& a, const Array& b, const ColumnLayout& layout, Direction direction,
                   const Array& out) {
  const ColumnPieces<T> factors(a, layout), terms(b, layout), writer(out, layout);
  layout.share([&](int64_t begin, int64_t end) {
    std::vector<double> value(static_cast<size_t>(layout.width)), factor(value.size());
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t n = layout.n, width = layout.columns_of(piece);
      std::byte *const from_a = factors.start(piece), *const from_b = terms.start(piece);
      std::byte* const target = writer.start(piece);
      std::fill(value.begin(), value.end(), 0.0);
      std::fill(factor.begin(), factor.end(), 0.0);
      double *v = value.data(), *f = factor.data();
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = position_of_step(i, n, direction);
        const int64_t next = direction == Direction::forward ? at + 1 : at - 1;
        factors.fetch_row(from_a, next, width);
        terms.fetch_row(from_b, next, width);
        const T* row_a = factors.read_row(from_a, at, width, nullptr);
        const T* row_b = terms.read_row(from_b, at, width, nullptr);
        T* to = writer.row_target(target, at, nullptr);
#pragma GCC ivdep
        for (int64_t c = 0; c < width; ++c) {
          v[c] = double{row_b[c]} + f[c] * v[c];
          f[c] = double{row_a[c]};
          to[c] = static_cast<T>(v[c]);
        }
      }
    }
  });
}

template <class T>
void along(const call::Recurrence& call) {
  const auto& [a, b, dim, direction, out] = call;
  if (const ColumnLayout layout(dim, Passes::one, {&a, &b, &out}); layout) {
    return along_columns<T>(a, b, layout, direction, out);
  }
  along_rows<T>(a, b, dim, direction, out);
}

}  // namespace

void CpuBackend::run(const call::Recurrence& call) {
  if (call.out.numel() == 0) return;
  call.out.dtype() == kFloat64 ? along<double>(call) : along<float>(call);
}

}  // namespace hero::core::cpu

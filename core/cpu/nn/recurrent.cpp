// One step of recurrent cells, after the products. T is the type of sums and gates, H the type of
// states and of the gradients that products of backward read: bfloat16 beside float.
#include <algorithm>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/kernels/recurrent_cells.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

namespace k = kernels;

// Elements a thread takes at a time: every element costs a few exponentials.
constexpr int64_t kCellGrain = 4096;

template <class Body>
void each_row(int64_t rows, int64_t hidden, Body&& body) {
  parallel_for(rows, std::max<int64_t>(1, kCellGrain / hidden), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) body(r);
  });
}

template <class T, class H>
void lstm(const call::CellStep& s) {
  const int64_t n = s.h.shape()[1];
  T *gates = s.of_x.data<T>(), *c = s.c.data<T>();
  H* h = s.h.data<H>();
  const T *sums = s.of_h.data<T>(), *before = s.c_before.data<T>();
  each_row(s.h.shape()[0], n, [&](int64_t r) {
    T* i = gates + r * 4 * n;
    T *f = i + n, *g = f + n, *o = g + n;
    const T* of_h = sums + r * 4 * n;
#pragma GCC ivdep
    for (int64_t j = 0; j < 2 * n; ++j) i[j] = math::sigmoid(i[j] + of_h[j]);
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) g[j] = math::tanh(g[j] + of_h[2 * n + j]);
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) o[j] = math::sigmoid(o[j] + of_h[3 * n + j]);
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) {
      const T cell = k::lstm_cell<T>({i[j], f[j], g[j], o[j]}, before[r * n + j]);
      c[r * n + j] = cell;
      h[r * n + j] = H(k::lstm_output(o[j], cell));
    }
  });
}

// Calls body(row, first column, columns) for pieces of rows.
constexpr int64_t kPiece = 256;
template <class Body>
void each_piece(int64_t rows, int64_t hidden, Body&& body) {
  const auto row = [&](int64_t r) __attribute__((noinline)) {
    for (int64_t at = 0; at < hidden; at += kPiece) body(r, at, std::min(kPiece, hidden - at));
  };
  each_row(rows, hidden, row);
}

// Asks for row `row` of x, whose rows have n elements. The way back reads what forward wrote long
// ago: while a row computes, the next one comes from memory. (g++ leaves out a call of a function
// that only prefetches, so there is none.)
template <class X>
[[gnu::always_inline]] inline void prefetch_row(const X* x, int64_t row, int64_t n) {
  if (x == nullptr) return;
  constexpr int64_t kLine = 64 / sizeof(X);
  for (int64_t j = 0; j < n; j += kLine) __builtin_prefetch(x + row * n + j, 0, 2);
}

// The whole gradient of a piece of h, from what CellStepBack has of it; the null ones do not exist.
template <class T, class H>
struct WholeGradient {
  T values[kPiece];
  WholeGradient(const T* g_h, const T* past, const H* g_output, int64_t n) {
    std::copy_n(g_h, n, values);
    if (past != nullptr) add(past, n);
    if (g_output != nullptr) add(g_output, n);
  }

 private:
  template <class X>
  void add(const X* more, int64_t n) {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) values[j] += T(more[j]);
  }
};

template <class T, class H>
void lstm_backward(const call::CellStepBack& s) {
  const int64_t n = s.g_h.shape()[1];
  const T *gates = s.gates.data<T>(), *before = s.c_before.data<T>(), *cells = s.c.data<T>();
  const T* g_h = s.g_h.data<T>();
  const H* g_output = s.g_output.defined() ? s.g_output.data<H>() : nullptr;
  T* g_c = s.g_c.data<T>();
  H* target = s.g_of_x.data<H>();
  const int64_t rows = s.g_h.shape()[0];
  each_piece(rows, n, [&](int64_t r, int64_t first, int64_t count) {
    if (first == 0 && r + 1 < rows) {
      prefetch_row(gates, r + 1, 4 * n);
      prefetch_row(before, r + 1, n);
      prefetch_row(cells, r + 1, n);
      prefetch_row(g_output, r + 1, n);
    }
    const int64_t at = r * n + first;
    const T* i = gates + r * 4 * n + first;
    const T *f = i + n, *g = f + n, *o = g + n, *c_old = before + at, *c = cells + at;
    H* to = target + r * 4 * n + first;
    T* of_c = g_c + at;
    const WholeGradient<T, H> whole(g_h + at, nullptr, g_output ? g_output + at : nullptr, count);
    const T* of_h = whole.values;
#pragma GCC ivdep
    for (int64_t j = 0; j < count; ++j) {
      const auto back =
          k::lstm_gradients<T>({i[j], f[j], g[j], o[j]}, c_old[j], c[j], of_h[j], of_c[j]);
      to[j] = H(back.sums.i);
      to[n + j] = H(back.sums.f);
      to[2 * n + j] = H(back.sums.g);
      to[3 * n + j] = H(back.sums.o);
      of_c[j] = back.c_before;
    }
  });
}

template <class T, class H>
void gru(const call::CellStep& s) {
  const int64_t n = s.h.shape()[1];
  T* gates = s.of_x.data<T>();
  H* h = s.h.data<H>();
  const T* sums = s.of_h.data<T>();
  const H* before = s.h_before.data<H>();
  each_row(s.h.shape()[0], n, [&](int64_t r) {
    T* reset = gates + r * 3 * n;
    T *update = reset + n, *candidate = update + n;
    const T* of_h = sums + r * 3 * n;
#pragma GCC ivdep
    for (int64_t j = 0; j < 2 * n; ++j) reset[j] = math::sigmoid(reset[j] + of_h[j]);
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) {
      candidate[j] = math::tanh(candidate[j] + reset[j] * of_h[2 * n + j]);
      h[r * n + j] = H(k::gru_output(update[j], candidate[j], T(before[r * n + j])));
    }
  });
}

template <class T, class H>
void gru_backward(const call::CellStepBack& s) {
  const int64_t n = s.g_h.shape()[1];
  const T *gates = s.gates.data<T>(), *sums = s.of_h.data<T>(), *g_h = s.g_h.data<T>();
  const H* before = s.h_before.data<H>();
  const H* g_output = s.g_output.defined() ? s.g_output.data<H>() : nullptr;
  T* direct = s.g_c.data<T>();
  H *of_x = s.g_of_x.data<H>(), *of_h = s.g_of_h.data<H>();
  const int64_t rows = s.g_h.shape()[0];
  each_piece(rows, n, [&](int64_t r, int64_t first, int64_t count) {
    if (first == 0 && r + 1 < rows) {
      prefetch_row(gates, r + 1, 3 * n);
      prefetch_row(sums, r + 1, 3 * n);
      prefetch_row(before, r + 1, n);
      prefetch_row(g_output, r + 1, n);
    }
    const int64_t at = r * n + first;
    const T* reset = gates + r * 3 * n + first;
    const T *update = reset + n, *candidate = update + n;
    const T* inner = sums + r * 3 * n + 2 * n + first;
    const H* old = before + at;
    H *x = of_x + r * 3 * n + first, *h = of_h + r * 3 * n + first;
    T* past = direct + at;
    const WholeGradient<T, H> whole(g_h + at, past, g_output ? g_output + at : nullptr, count);
    const T* g = whole.values;
#pragma GCC ivdep
    for (int64_t j = 0; j < count; ++j) {
      const auto back =
          k::gru_gradients<T>({reset[j], update[j], candidate[j]}, inner[j], T(old[j]), g[j]);
      x[j] = h[j] = H(back.r);
      x[n + j] = h[n + j] = H(back.z);
      x[2 * n + j] = H(back.n_of_x);
      h[2 * n + j] = H(back.n_of_h);
      past[j] = back.h_before;
    }
  });
}

// Calls body(T, H) for the dtype of a step's states.
template <class Body>
void for_states(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::float64:
      return body(double{}, double{});
    case DType::bfloat16:
      return body(float{}, BFloat16{});
    default:
      return body(float{}, float{});
  }
}

}  // namespace

// Float16, whose products go through float32 as well, has no loops of its own.
void CpuBackend::run(const call::CellStep& step) {
  if (step.h.numel() == 0) return;
  if (step.h.dtype() == kFloat16) {
    call::CellStep wide = step;
    wide.h = Array::empty(step.h.shape());
    if (step.kind == CellKind::gru) wide.h_before = step.h_before.to(kFloat32);
    run(wide);
    return run(call::Copy{wide.h, step.h});
  }
  for_states(step.h.dtype(), [&]<class T, class H>(T, H) {
    step.kind == CellKind::lstm ? lstm<T, H>(step) : gru<T, H>(step);
  });
}

void CpuBackend::run(const call::CellStepBack& step) {
  if (step.g_h.numel() == 0) return;
  if (step.g_of_x.dtype() == kFloat16) {
    call::CellStepBack wide = step;
    if (step.g_output.defined()) wide.g_output = step.g_output.to(kFloat32);
    wide.g_of_x = Array::empty(step.g_of_x.shape());
    if (step.kind == CellKind::gru) {
      wide.h_before = step.h_before.to(kFloat32);
      wide.g_of_h = Array::empty(step.g_of_h.shape());
    }
    run(wide);
    run(call::Copy{wide.g_of_x, step.g_of_x});
    if (step.kind == CellKind::gru) run(call::Copy{wide.g_of_h, step.g_of_h});
    return;
  }
  for_states(step.g_of_x.dtype(), [&]<class T, class H>(T, H) {
    step.kind == CellKind::lstm ? lstm_backward<T, H>(step) : gru_backward<T, H>(step);
  });
}

}  // namespace hero::core::cpu

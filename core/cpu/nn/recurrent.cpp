// One step of recurrent cells: what comes after the products.
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

template <class T>
void lstm(const CellStep& s) {
  const int64_t n = s.h.shape()[1];
  T *gates = s.of_x.data<T>(), *h = s.h.data<T>(), *c = s.c.data<T>();
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
      h[r * n + j] = k::lstm_output(o[j], cell);
    }
  });
}

template <class T>
void lstm_backward(const CellStepBack& s) {
  const int64_t n = s.g_h.shape()[1];
  const T *gates = s.gates.data<T>(), *before = s.c_before.data<T>(), *cells = s.c.data<T>();
  const T* g_h = s.g_h.data<T>();
  T *g_c = s.g_c.data<T>(), *target = s.g_of_x.data<T>();
  each_row(s.g_h.shape()[0], n, [&](int64_t r) {
    const T* i = gates + r * 4 * n;
    const T *f = i + n, *g = f + n, *o = g + n, *c_old = before + r * n, *c = cells + r * n;
    T* to = target + r * 4 * n;
    T* of_c = g_c + r * n;
    const T* of_h = g_h + r * n;
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) {
      const auto back =
          k::lstm_gradients<T>({i[j], f[j], g[j], o[j]}, c_old[j], c[j], of_h[j], of_c[j]);
      to[j] = back.sums.i;
      to[n + j] = back.sums.f;
      to[2 * n + j] = back.sums.g;
      to[3 * n + j] = back.sums.o;
      of_c[j] = back.c_before;
    }
  });
}

template <class T>
void gru(const CellStep& s) {
  const int64_t n = s.h.shape()[1];
  T *gates = s.of_x.data<T>(), *h = s.h.data<T>();
  const T *sums = s.of_h.data<T>(), *before = s.h_before.data<T>();
  each_row(s.h.shape()[0], n, [&](int64_t r) {
    T* reset = gates + r * 3 * n;
    T *update = reset + n, *candidate = update + n;
    const T* of_h = sums + r * 3 * n;
#pragma GCC ivdep
    for (int64_t j = 0; j < 2 * n; ++j) reset[j] = math::sigmoid(reset[j] + of_h[j]);
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) {
      candidate[j] = math::tanh(candidate[j] + reset[j] * of_h[2 * n + j]);
      h[r * n + j] = k::gru_output(update[j], candidate[j], before[r * n + j]);
    }
  });
}

template <class T>
void gru_backward(const CellStepBack& s) {
  const int64_t n = s.g_h.shape()[1];
  const T *gates = s.gates.data<T>(), *sums = s.of_h.data<T>(), *before = s.h_before.data<T>();
  const T* g_h = s.g_h.data<T>();
  T *direct = s.g_c.data<T>(), *of_x = s.g_of_x.data<T>(), *of_h = s.g_of_h.data<T>();
  each_row(s.g_h.shape()[0], n, [&](int64_t r) {
    const T* reset = gates + r * 3 * n;
    const T *update = reset + n, *candidate = update + n, *old = before + r * n;
    const T *inner = sums + r * 3 * n + 2 * n, *g = g_h + r * n;
    T *x = of_x + r * 3 * n, *h = of_h + r * 3 * n, *to = direct + r * n;
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) {
      const auto back =
          k::gru_gradients<T>({reset[j], update[j], candidate[j]}, inner[j], old[j], g[j]);
      x[j] = back.r;
      x[n + j] = back.z;
      x[2 * n + j] = back.n_of_x;
      h[j] = back.r;
      h[n + j] = back.z;
      h[2 * n + j] = back.n_of_h;
      to[j] = back.h_before;
    }
  });
}

}  // namespace

void CpuBackend::recurrent_cell(CellKind kind, const CellStep& step) {
  if (step.h.numel() == 0) return;
  const bool wide = step.h.dtype() == kFloat64;
  if (kind == CellKind::lstm) return wide ? lstm<double>(step) : lstm<float>(step);
  wide ? gru<double>(step) : gru<float>(step);
}

void CpuBackend::recurrent_cell_backward(CellKind kind, const CellStepBack& step) {
  if (step.g_h.numel() == 0) return;
  const bool wide = step.g_h.dtype() == kFloat64;
  if (kind == CellKind::lstm) {
    return wide ? lstm_backward<double>(step) : lstm_backward<float>(step);
  }
  wide ? gru_backward<double>(step) : gru_backward<float>(step);
}

}  // namespace hero::core::cpu

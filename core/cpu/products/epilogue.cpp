// Bias and activation in a product's memory, in one pass over rows that are still in the cache.
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/kernels/elementwise.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

struct Identity {
  template <class T>
  T operator()(T x) const {
    return x;
  }
};

// Two loops: with a bias z is written too, and the compiler must know that it is not `out`.
template <class F, class T>
void run_row(const T* bias, int64_t n, T* z, T* out) {
  const F f;
  if (bias != nullptr) {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) z[j] = z[j] + bias[j];
  }
  if (std::is_same_v<F, Identity> && z == out) return;
#pragma GCC ivdep
  for (int64_t j = 0; j < n; ++j) out[j] = f(z[j]);
}

// One number for the whole row.
template <class F, class T>
void shift_row(T bias, int64_t n, T* z, T* out) {
  const F f;
  if (z == out) {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) z[j] = f(z[j] + bias);
    return;
  }
#pragma GCC ivdep
  for (int64_t j = 0; j < n; ++j) z[j] = z[j] + bias;
#pragma GCC ivdep
  for (int64_t j = 0; j < n; ++j) out[j] = f(z[j]);
}

template <class F, class T>
void run_rows(const Array* bias, const Array& z, const Array& out) {
  const int64_t n = z.shape().back(), rows = z.numel() / n;
  const T* shift = bias != nullptr ? bias->data<T>() : nullptr;
  const int64_t channels = bias != nullptr && bias->ndim() == 2 ? bias->size(0) : 0;
  T* from = z.data<T>();
  T* to = out.data<T>();
  parallel_for(rows, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      if (channels > 0) {
        shift_row<F>(shift[r % channels], n, from + r * n, to + r * n);
      } else {
        run_row<F>(shift, n, from + r * n, to + r * n);
      }
    }
  });
}

template <class T>
void finish(Activation activation, const Array* bias, const Array& z, const Array& out) {
  switch (activation) {
    case Activation::none:
      return run_rows<Identity, T>(bias, z, out);
    case Activation::relu:
      return run_rows<kernels::Relu, T>(bias, z, out);
    case Activation::gelu:
      return run_rows<kernels::Gelu, T>(bias, z, out);
    case Activation::gelu_tanh:
      return run_rows<kernels::GeluTanh, T>(bias, z, out);
  }
}

}  // namespace

void CpuBackend::run(const call::BiasActivation& call) {
  if (call.z.numel() == 0) return;
  if (call.z.dtype() == kFloat64)
    return finish<double>(call.activation, call.bias, call.z, call.out);
  finish<float>(call.activation, call.bias, call.z, call.out);
}

}  // namespace hero::core::cpu

// The log-probability of one class for each row of logits, and its derivative, with one pass over
// the row each.
#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/reduce/row_sums.h>
#include <hero/core/kernels/log_sum.h>
#include <hero/core/thread_pool.h>

namespace hero::core::cpu {

namespace {

using kernels::LogSum;

template <class T>
LogSum<T> log_sum_exp(const T* x, int64_t n) {
  const T top = row_max(x, n);
  return LogSum<T>::of(top, sum_of<T>(n, [&](int64_t i) { return exp_term(x[i] - top); }));
}

template <class T>
void forward(const Array& x, const Array& classes, const Array& out, const Array& log_sum) {
  const int64_t n = x.shape()[1];
  const T* from = x.data<T>();
  const int64_t* at = classes.data<int64_t>();
  T *to = out.data<T>(), *sums = log_sum.data<T>();
  parallel_for(x.shape()[0], std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const LogSum<T> sum = log_sum_exp(from + r * n, n);
      sums[2 * r] = sum.shift;
      sums[2 * r + 1] = sum.rest;
      to[r] = sum.log_probability(from[r * n + at[r]]);
    }
  });
}

template <class T>
void backward(const Array& g, const Array& x, const Array& classes, const Array& log_sum,
              const Array& g_x) {
  const int64_t n = x.shape()[1];
  const T *gradient = g.data<T>(), *from = x.data<T>(), *sums = log_sum.data<T>();
  const int64_t* at = classes.data<int64_t>();
  T* to = g_x.data<T>();
  parallel_for(x.shape()[0], std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T *row = from + r * n, factor = -gradient[r];
      const LogSum<T> sum{sums[2 * r], sums[2 * r + 1]};
      T* target = to + r * n;
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) target[i] = factor * exp_term(sum.log_probability(row[i]));
      target[at[r]] += gradient[r];
    }
  });
}

}  // namespace

void CpuBackend::run(const call::LogLikelihood& call) {
  if (call.x.numel() == 0) return;
  if (call.x.dtype() == kFloat64)
    return forward<double>(call.x, call.classes, call.out, call.log_sum);
  forward<float>(call.x, call.classes, call.out, call.log_sum);
}

void CpuBackend::run(const call::LogLikelihoodBack& call) {
  if (call.x.numel() == 0) return;
  if (call.x.dtype() == kFloat64)
    return backward<double>(call.g, call.x, call.classes, call.log_sum, call.g_x);
  backward<float>(call.g, call.x, call.classes, call.log_sum, call.g_x);
}

}  // namespace hero::core::cpu

// Windows of signals.
#include <numbers>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/elementwise/special.h>
#include <hero/autograd/ops/signal/signal.h>

namespace hero {

namespace {

constexpr double kPi = std::numbers::pi;

// shape(k, 1 / n) for all k in double, rounded.
template <class Weights>
Tensor window(const char* op, int64_t length, bool periodic, const TensorOptions& options,
              const Weights& weights) {
  const detail::Named named(op);
  const DType dtype = options.dtype.value_or(kFloat32);
  check(length >= 0, op, ": window_length is negative: ", length);
  check(is_floating(dtype), op, ": windows are floating: got ", dtype);
  const NoGrad no_grad;
  const TensorOptions wide{.dtype = kFloat64, .device = options.device};
  const double n = static_cast<double>(periodic ? length : length - 1);
  const Tensor all = length == 1 ? ones({1}, wide) : weights(arange(length, wide), 1.0 / n);
  return Tensor(all.to(dtype).array(), options.requires_grad);
}

Tensor cosine(const char* op, int64_t length, bool periodic, double alpha, double beta,
              const TensorOptions& options) {
  return window(op, length, periodic, options, [=](const Tensor& k, double step) {
    return alpha - beta * cos(k * (2.0 * kPi * step));
  });
}

}  // namespace

Tensor hann_window(int64_t window_length, bool periodic, const TensorOptions& options) {
  return cosine("hann_window", window_length, periodic, 0.5, 0.5, options);
}

Tensor hamming_window(int64_t window_length, bool periodic, double alpha, double beta,
                      const TensorOptions& options) {
  return cosine("hamming_window", window_length, periodic, alpha, beta, options);
}

Tensor blackman_window(int64_t window_length, bool periodic, const TensorOptions& options) {
  const auto weights = [](const Tensor& k, double step) {
    const Tensor angle = k * (2.0 * kPi * step);
    return 0.42 - 0.5 * cos(angle) + 0.08 * cos(angle * 2.0);
  };
  return window("blackman_window", window_length, periodic, options, weights);
}

Tensor bartlett_window(int64_t window_length, bool periodic, const TensorOptions& options) {
  const auto weights = [](const Tensor& k, double step) {
    return 1.0 - abs(k * (2.0 * step) - 1.0);
  };
  return window("bartlett_window", window_length, periodic, options, weights);
}

Tensor kaiser_window(int64_t window_length, bool periodic, double beta,
                     const TensorOptions& options) {
  const auto weights = [beta](const Tensor& k, double step) {
    const Tensor inside = clamp_min(1.0 - square(k * (2.0 * step) - 1.0), 0.0);
    return i0(sqrt(inside) * beta) / i0(full({}, beta, {.dtype = kFloat64, .device = k.device()}));
  };
  return window("kaiser_window", window_length, periodic, options, weights);
}

}  // namespace hero

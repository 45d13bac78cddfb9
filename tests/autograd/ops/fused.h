#pragma once
// What a fused operation owes its composed definition: values, gradients, second derivatives, half
// precision.
#include <algorithm>
#include <functional>
#include <string>

#include "support/catch.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/ops.h>
#include <hero/core/thread_pool.h>

namespace hero::test {

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

// The same values on every machine, requiring grad.
inline Tensors inputs_of(const std::vector<Shape>& shapes, DType dtype) {
  manual_seed(11);
  Tensors inputs;
  for (const Shape& shape : shapes) {
    inputs.push_back(randn(shape, {.dtype = kFloat64}).to(dtype).detach().requires_grad_());
  }
  return inputs;
}

// Outputs and gradients of their sum, weighted so that no element's gradient is like another's.
inline Tensors outputs_and_gradients(const Function& f, const Tensors& inputs) {
  Tensors results = f(inputs);
  GradOptions options;
  Tensors roots;
  for (const Tensor& output : results) {
    if (!output.requires_grad()) continue;
    roots.push_back(output);
    manual_seed(29);
    options.grad_outputs.push_back(randn(output.shape(), {.dtype = kFloat64}).to(output.dtype()));
  }
  for (const Tensor& g : grad(roots, inputs, options)) results.push_back(g);
  return results;
}

inline double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  if (a.numel() == 0) return 0.0;
  const Tensor x = a.detach().to(kFloat64), y = b.detach().to(kFloat64);
  return max(abs(x - y)).item() / std::max(1.0, max(abs(y)).item());
}

// Values and gradients agree in double, float and bfloat16, up to roundings of sums of some hundred
// terms in other orders; bfloat16 has 8 bits, is compared with float, and rounds in every step of a
// recurrent layer.
inline void agree(const Function& fused, const Function& composed,
                  const std::vector<Shape>& shapes) {
  for (const DType dtype : {kFloat64, kFloat32, kBFloat16}) {
    INFO(std::string(name(dtype)));
    const double bound = dtype == kFloat64 ? 1e-12 : dtype == kFloat32 ? 1e-5 : 1e-1;
    const Tensors inputs = inputs_of(shapes, dtype);
    const Tensors results = outputs_and_gradients(fused, inputs);
    Tensors wide;
    for (const Tensor& x : inputs) {
      wide.push_back(dtype == kBFloat16 ? x.detach().to(kFloat32).requires_grad_() : x);
    }
    const Tensors expected = outputs_and_gradients(composed, wide);
    REQUIRE(results.size() == expected.size());
    for (size_t i = 0; i < results.size(); ++i) {
      INFO("result " << i);
      CHECK(results[i].dtype() == dtype);
      CHECK(largest_difference(results[i], expected[i]) < bound);
    }
  }
}

// First and second derivatives against finite differences.
inline void differentiable(const Function& f, const std::vector<Shape>& shapes) {
  const Tensors inputs = inputs_of(shapes, kFloat64);
  const GradcheckOptions options{.atol = 1e-6, .rtol = 1e-5};
  CHECK_NOTHROW(gradcheck(f, inputs, options));
  CHECK_NOTHROW(gradgradcheck(f, inputs, options));
}

// The bits of outputs and gradients are the same at 1, 2 and 3 threads.
inline void same_at_any_threads(const Function& f, const std::vector<Shape>& shapes,
                                DType dtype = kFloat32) {
  const auto bits_at = [&](int threads) {
    const ThreadLimit limit(threads);
    std::vector<std::vector<float>> bits;
    for (const Tensor& x : outputs_and_gradients(f, inputs_of(shapes, dtype))) {
      bits.push_back(x.to(kFloat32).to_vector<float>());
    }
    return bits;
  };
  const auto expected = bits_at(1);
  CHECK((bits_at(2) == expected));
  CHECK((bits_at(3) == expected));
}

/// A parameter of the channels of x [N, C, ..], in x's dtype, so that it broadcasts.
inline Tensor as_channels(const Tensor& parameter, const Tensor& x) {
  Shape shape = Shape::filled(x.ndim(), 1);
  shape[1] = x.size(1);
  return parameter.to(x.dtype()).reshape(shape);
}

/// The shape of x, and those of the weight and the bias of its channels that are given.
template <class Given>
std::vector<Shape> shapes_of(const Shape& x, const Given& given) {
  std::vector<Shape> shapes{x};
  if (given.weight) shapes.push_back({x[1]});
  if (given.bias) shapes.push_back({x[1]});
  return shapes;
}

}  // namespace hero::test

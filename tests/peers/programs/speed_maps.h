#pragma once
// Elementwise operators among those of speed_operators.h.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace peers {

/// `apply` of float32 tensors of these shapes, with values between -4 and 4. `has_gradient`: its
/// gradients are timed as well, as the case of this name with "_back". `is_half`: of bfloat16.
template <class Side>
struct Operator {
  using Tensor = typename Side::Tensor;
  const char* name;
  std::vector<std::vector<int64_t>> shapes;
  std::function<Tensor(const std::vector<Tensor>&)> apply;
  bool has_gradient = true, is_half = false;
};

template <class Side>
using Operators = std::vector<Operator<Side>>;

/// Functions of one tensor.
template <class Side>
Operators<Side> functions() {
  using List = const std::vector<typename Side::Tensor>&;
  const std::vector<std::vector<int64_t>> one = {{4'000'000}};
  return {
      {"log1p", one, [](List x) { return log1p(abs(x[0])); }},
      {"log", one, [](List x) { return log(abs(x[0])); }},
      {"expm1", one, [](List x) { return expm1(x[0]); }},
      {"exp2", one, [](List x) { return exp2(x[0]); }},
      {"erf", one, [](List x) { return erf(x[0]); }},
      {"sin", one, [](List x) { return sin(x[0]); }},
      {"tan", one, [](List x) { return tan(x[0]); }},
      {"atan", one, [](List x) { return atan(x[0]); }},
      {"abs", one, [](List x) { return abs(x[0]); }},
      {"square", one, [](List x) { return square(x[0]); }},
      {"pow_3", one, [](List x) { return pow(x[0], 3.0); }},
      {"pow_minus_2", one, [](List x) { return pow(x[0], -2.0); }},
      {"sqrt", one, [](List x) { return sqrt(abs(x[0])); }},
      {"rsqrt", one, [](List x) { return rsqrt(abs(x[0])); }},
      {"reciprocal", one, [](List x) { return reciprocal(x[0]); }},
      {"clamp", one, [](List x) { return clamp(x[0], -1.0, 1.0); }},
      {"lgamma", one, [](List x) { return lgamma(x[0]); }},
  };
}

template <class Side>
Operators<Side> activations() {
  using List = const std::vector<typename Side::Tensor>&;
  const std::vector<std::vector<int64_t>> one = {{4'000'000}};
  return {
      {"softplus", one, [](List x) { return softplus(x[0]); }},
      {"silu", one, [](List x) { return silu(x[0]); }},
      {"mish", one, [](List x) { return mish(x[0]); }},
      {"elu", one, [](List x) { return elu(x[0]); }},
      {"selu", one, [](List x) { return selu(x[0]); }},
      {"celu", one, [](List x) { return celu(x[0], 1.5); }},
      {"relu", one, [](List x) { return relu(x[0]); }},
      {"relu6", one, [](List x) { return relu6(x[0]); }},
      {"leaky_relu", one, [](List x) { return leaky_relu(x[0], 0.01); }},
      {"prelu", {{32, 64, 56, 56}, {64}}, [](List x) { return prelu(x[0], x[1]); }},
      {"hardswish", one, [](List x) { return hardswish(x[0]); }},
      {"hardsigmoid", one, [](List x) { return hardsigmoid(x[0]); }},
      {"hardtanh", one, [](List x) { return hardtanh(x[0], -1.0, 1.0); }},
      {"hardshrink", one, [](List x) { return hardshrink(x[0], 0.5); }},
      {"softshrink", one, [](List x) { return softshrink(x[0], 0.5); }},
      {"threshold", one, [](List x) { return threshold(x[0], 0.1, 20.0); }},
      {"sigmoid", one, [](List x) { return sigmoid(x[0]); }},
      {"logsigmoid", one, [](List x) { return Side::logsigmoid(x[0]); }},
      {"glu", {{4096, 1024}}, [](List x) { return glu(x[0], 1); }},
  };
}

/// Functions of several tensors, losses among them.
template <class Side>
Operators<Side> pairs() {
  using List = const std::vector<typename Side::Tensor>&;
  const std::vector<std::vector<int64_t>> two = {{4'000'000}, {4'000'000}};
  const std::vector<std::vector<int64_t>> shorter = {{1'000'000}, {1'000'000}};
  return {
      {"pow_tensor", two, [](List x) { return pow(abs(x[0]), x[1]); }},
      {"atan2", two, [](List x) { return atan2(x[0], x[1]); }},
      {"hypot", two, [](List x) { return hypot(x[0], x[1]); }},
      {"div", two, [](List x) { return x[0] / x[1]; }},
      {"maximum", two, [](List x) { return maximum(x[0], x[1]); }},
      {"logaddexp", two, [](List x) { return logaddexp(x[0], x[1]); }},
      {"lerp",
       {{1'000'000}, {1'000'000}, {1'000'000}},
       [](List x) { return lerp(x[0], x[1], x[2]); }},
      {"addcmul",
       {{1'000'000}, {1'000'000}, {1'000'000}},
       [](List x) { return addcmul(x[0], x[1], x[2], 0.5); }},
      {"addcdiv",
       {{1'000'000}, {1'000'000}, {1'000'000}},
       [](List x) { return addcdiv(x[0], x[1], x[2], 0.5); }},
      {"mse", shorter, [](List x) { return mse_loss(x[0], x[1]); }},
      {"l1", shorter, [](List x) { return l1_loss(x[0], x[1]); }},
      {"smooth_l1", shorter, [](List x) { return smooth_l1_loss(x[0], x[1]); }},
      {"huber", shorter, [](List x) { return huber_loss(x[0], x[1]); }},
      {"kl_div", shorter, [](List x) { return kl_div(x[0], abs(x[1])); }},
      {"bce", shorter,
       [](List x) { return binary_cross_entropy(sigmoid(x[0]), sigmoid(x[1].detach())); }},
      {"bce_logits", shorter, [](List x) { return Side::bce_with_logits(x[0], x[1]); }},
      {"soft_margin", shorter, [](List x) { return soft_margin_loss(x[0], x[1].detach()); }},
      {"poisson_nll", shorter, [](List x) { return Side::poisson_nll(x[0], x[1]); }},
      {"row_bias", {{4096, 1024}, {1024}}, [](List x) { return x[0] + x[1]; }},
      {"column_scale", {{4096, 1024}, {4096, 1}}, [](List x) { return x[0] * x[1]; }},
      {"channel_scale", {{32, 64, 56, 56}, {64, 1, 1}}, [](List x) { return x[0] * x[1]; }},
      {"outer_sum", {{2048, 1}, {1, 2048}}, [](List x) { return x[0] + x[1]; }},
  };
}

}  // namespace peers

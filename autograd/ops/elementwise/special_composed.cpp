// Special functions that are made of others.
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/number.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/core/functions/map.h>
#include <hero/core/promotion.h>

namespace hero {

namespace {

namespace k = core::kernels;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// -x log(x), whose slope at 0 is infinite.
struct Entr : Op {
  static constexpr unsigned kSaveInputs = 1;
  const char* name() const override { return "entr"; }
  Array forward(const Array& x) {
    const Array inside = core::map<k::Sub>(Scalar(0.0), core::map<k::Xlogy>(x, x));
    return core::map<k::Where>(core::map<k::Less>(x, Scalar(0.0)), Scalar(-kInfinity), inside);
  }
  Grads backward(const Tensor& g) override { return {g * (-log(input(0)) - 1.0)}; }
};

}  // namespace

Tensor entr(const Tensor& x) {
  detail::check_defined("entr", {{"x", x}});
  if (detail::any_half(x)) {
    return detail::in_float32("entr", {x}, [](const auto& in) { return entr(in[0]); });
  }
  return record(Entr{}, is_floating(x.dtype()) ? x : x.to(kFloat32));
}

Tensor ndtr(const Tensor& x) {
  detail::check_defined("ndtr", {{"x", x}});
  if (detail::any_half(x)) {
    return detail::in_float32("ndtr", {x}, [](const auto& in) { return ndtr(in[0]); });
  }
  return erfc(x * -std::numbers::sqrt2 / 2.0) / 2.0;
}

namespace {

// Both in the floating dtype of their result, in which every step computes.
std::pair<Tensor, Tensor> alike(const Tensor& a, const Tensor& b) {
  Promotion promotion;
  for (const Tensor* each : {&a, &b}) promotion.add(each->dtype(), each->ndim());
  promotion.add(Scalar(1.0));
  return {a.to(promotion.dtype()), b.to(promotion.dtype())};
}

}  // namespace

Tensor xlog1py(const Tensor& x, const Tensor& y) {
  const detail::Named named("xlog1py", {"x", x}, {"y", y});
  detail::check_defined("xlog1py", {{"x", x}, {"y", y}});
  if (detail::any_half(x, y)) {
    return detail::in_float32("xlog1py", {x, y},
                              [](const auto& in) { return xlog1py(in[0], in[1]); });
  }
  // 0 times an infinite logarithm, or one of a negative number, counts as 0.
  const auto [a, b] = alike(x, y);
  const Tensor is_zero = logical_and(a == 0, logical_or(b <= -1, b == kInfinity));
  return a * where(is_zero, 0, log1p(b));
}

Tensor xlog1py(const Tensor& x, Scalar y) {
  detail::check_defined("xlog1py", {{"x", x}});
  return xlog1py(x, detail::float_beside(x, y));
}
Tensor xlog1py(Scalar x, const Tensor& y) {
  detail::check_defined("xlog1py", {{"y", y}});
  return xlog1py(detail::float_beside(y, x), y);
}

Tensor logaddexp2(const Tensor& a, const Tensor& b) {
  const detail::Named named("logaddexp2", {"a", a}, {"b", b});
  detail::check_defined("logaddexp2", {{"a", a}, {"b", b}});
  if (detail::any_half(a, b)) {
    return detail::in_float32("logaddexp2", {a, b},
                              [](const auto& in) { return logaddexp2(in[0], in[1]); });
  }
  // Of equal ones, which may be infinite, the difference is not needed.
  const Tensor apart = where(a == b, 0, a - b);
  return maximum(a, b) + log1p(exp2(-abs(apart))) / std::numbers::ln2;
}

Tensor ldexp(const Tensor& x, const Tensor& exponent) {
  const detail::Named named("ldexp", {"x", x}, {"exponent", exponent});
  detail::check_defined("ldexp", {{"x", x}, {"exponent", exponent}});
  if (detail::any_half(x, exponent)) {
    return detail::in_float32("ldexp", {x, exponent},
                              [](const auto& in) { return ldexp(in[0], in[1]); });
  }
  const auto [a, b] = alike(x, exponent);
  return a * exp2(b);
}

}  // namespace hero

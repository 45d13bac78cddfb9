// A product or a quotient that is added, in one pass.
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/formula.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/core/functions/map.h>
#include <hero/core/promotion.h>

namespace hero {

namespace {

namespace k = core::kernels;

struct Addcmul : Op {
  Scalar value;
  explicit Addcmul(Scalar v) : value(v) {}
  bool saves_input(int i) const { return (i == 1 && needs(2)) || (i == 2 && needs(1)); }
  const char* name() const override { return "addcmul"; }
  Array forward(const Array& x, const Array& a, const Array& b) {
    if (value.real() == 1.0 && a.dtype() == x.dtype() && a.dtype() == b.dtype() &&
        is_floating(x.dtype())) {  // what is the same along rows is not spread out
      core::Formula f(name());
      const Term all = core::term<k::Affine>(f(a), f(b), f(x));
      return f.run(all);
    }
    return core::map<k::Addcmul>(x, a, b, value);
  }
  Grads backward(const Tensor& g) override {
    Formula f;
    const Term dy = f(g);
    const auto times = [&](int i) {
      const Term product = dy * f(input(i));
      return f.run(value.real() == 1.0 ? product : product * value.real());
    };
    return {g, needs(1) ? times(2) : Tensor(), needs(2) ? times(1) : Tensor()};
  }
};
struct Addcdiv : Op {
  double value;
  explicit Addcdiv(double v) : value(v) {}
  bool saves_input(int i) const { return i == 2 ? needs(1) || needs(2) : i == 1 && needs(2); }
  const char* name() const override { return "addcdiv"; }
  Array forward(const Array& x, const Array& a, const Array& b) {
    core::Formula f(name());
    return f.run(f(x) + f(a) / f(b) * value);
  }
  Grads backward(const Tensor& g) override {
    if (!needs(1) && !needs(2)) return {g, Tensor(), Tensor()};
    Formula f;
    const Term b = f(input(2)), part = f(g) * value / b;
    const Term to_b = needs(2) ? -part * f(input(1)) / b : part;
    const Grads both = f.run({{needs(1), part}, {needs(2), to_b}});
    return {g, both[0], both[1]};
  }
};

// Of three operands.
DType common_dtype(const Tensor& x, const Tensor& a, const Tensor& b) {
  Promotion all;
  for (const Tensor* each : {&x, &a, &b}) all.add(each->dtype(), each->ndim());
  return all.dtype();
}

}  // namespace

Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value) {
  detail::check_defined("addcmul", {{"x", x}, {"a", a}, {"b", b}});
  const bool floating = is_floating(common_dtype(x, a, b));
  check(floating || fits(value, kInt64), "addcmul: ", value, " does not fit int64");
  return record(Addcmul(floating ? value : Scalar(value.to<int64_t>())), x, a, b);
}

Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Scalar value) {
  const detail::Named named("addcdiv", {"x", x}, {"a", a}, {"b", b});
  detail::check_defined("addcdiv", {{"x", x}, {"a", a}, {"b", b}});
  if (detail::any_half(x, a, b)) {
    return detail::in_float32("addcdiv", {x, a, b},
                              [=](const auto& in) { return addcdiv(in[0], in[1], in[2], value); });
  }
  const DType common = common_dtype(x, a, b);
  if (!is_floating(common)) return x + a / b * value;
  return record(Addcdiv(value.real()), x.to(common), a.to(common), b.to(common));
}
}  // namespace hero

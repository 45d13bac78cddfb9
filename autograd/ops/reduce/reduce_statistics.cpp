// logsumexp, variance and norms. Forward passes read x once or twice and allocate nothing of its
// size.
#include <algorithm>
#include <cmath>
#include <limits>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/place.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/map.h>
#include <hero/core/functions/reductions.h>

namespace hero {

namespace {

namespace k = core::kernels;
using core::KeepDims;
using core::ReduceKind;
using detail::any_half, detail::in_float32;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Array squeezed(const Array& kept, const Dims& dims, bool keepdim) {
  return keepdim ? kept : kept.reshape(detail::dropped_shape(kept.shape(), dims));
}

void require_floating(const char* op, const Tensor& x) {
  check(is_floating(x.dtype()), op, ": array is ", x.dtype(),
        "; convert to a floating dtype first");
}

// Elements that each result is made of.
double reduced_count(const Shape& shape, const Dims& dims) {
  double count = 1.0;
  for (int64_t dim : dims) count *= static_cast<double>(shape[static_cast<int>(dim)]);
  return count;
}

struct LogSumExp : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveInputs = 1;
  static constexpr unsigned kSaveOutputs = 1;
  Dims dims;
  bool keepdim;
  LogSumExp(const Dims& d, bool keeps) : dims(d), keepdim(keeps) {}
  const char* name() const override { return "logsumexp"; }
  Array forward(const Array& x) {
    const Shape kept = detail::kept_shape(x.shape(), dims);
    if (reduced_count(x.shape(), dims) == 0.0) {
      return squeezed(Array::full(kept, -kInfinity, x.dtype(), x.device()), dims, keepdim);
    }
    Array center = core::reduce(ReduceKind::max, x, dims, KeepDims::yes);
    // An infinite centre would give inf - inf.
    center = core::map<k::Where>(core::map<k::IsFinite>(center), center, Scalar(0.0));
    const Array total = core::reduce(ReduceKind::sum_exp, x, dims, KeepDims::yes, &center);
    return squeezed(core::map<k::Add>(core::map<k::Log>(total), center), dims, keepdim);
  }
  Grads backward(const Tensor& g) override {
    const Shape kept = detail::kept_shape(input_shape(0), dims);
    const Tensor y = reshape(output(), kept);
    // A row of -inf has the gradient 0, not exp(-inf + inf).
    return {reshape(g, kept) * exp(input(0) - masked_fill(y, y == -kInfinity, 0.0))};
  }
};

// Whether float32 holds a sum of powers: it is in range, no NaN, and not so small that terms were
// lost.
bool holds(float sum) {
  constexpr float kSmallest = 1e-30f, kLargest = std::numeric_limits<float>::max();
  return sum >= kSmallest && sum <= kLargest;
}

// finish(sum(dtype)) in x's dtype: sums of squares or other powers as arrays of a dtype, and what
// is made of them. [note: powers out of range] The square of 1e20 is no float32 though the root of
// a sum of such squares is. What float32 does not hold is made again in float64; what it holds
// keeps its bits. The host can look. It would have to wait for a GPU, so squares are summed in
// float64 there.
template <class Sum, class Finish>
Array of_powers(const Array& x, bool are_squares, const Sum& sum, const Finish& finish) {
  if (x.dtype() != kFloat32) return finish(sum(x.dtype()));
  if (core::is_accelerator(x.device())) {
    return finish(sum(are_squares ? kFloat64 : kFloat32)).to(kFloat32);
  }
  const Array sums = sum(kFloat32), results = finish(sums);
  if (!core::has_values(x.device())) return results;
  const auto* value = sums.template data<float>();
  if (std::all_of(value, value + sums.numel(), holds)) return results;
  const Array wide = finish(sum(kFloat64)).to(kFloat32);
  auto *to = results.template data<float>(), *from = wide.template data<float>();
  for (int64_t i = 0; i < sums.numel(); ++i) {
    if (!holds(value[i])) to[i] = from[i];
  }
  return results;
}

// x reduced in `dtype`, with the reduced dimensions kept.
Array reduced(ReduceKind op, const Array& x, const Dims& dims, DType dtype,
              const Array* center = nullptr) {
  const Array out = Array::empty(detail::kept_shape(x.shape(), dims), dtype, x.device());
  core::backend(x.device()).run(core::call::Reduce{op, x, center, out});
  return out;
}

// The sum of squared deviations over `divisor`, in one pass after the mean's.
Array variance(const Array& x, const Dims& dims, double divisor, DType dtype) {
  const double count = reduced_count(x.shape(), dims);
  const Array total = reduced(ReduceKind::sum, x, dims, dtype);
  const Array mean = core::map<k::Div>(total, Scalar(count));
  const Array deviation = reduced(ReduceKind::sum_deviation, x, dims, dtype, &mean);
  return core::map<k::Div>(deviation, Scalar(divisor));
}

struct Var : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveInputs = 1;
  Dims dims;
  bool keepdim;
  double divisor;
  Var(const Dims& d, bool keeps, double n) : dims(d), keepdim(keeps), divisor(n) {}
  const char* name() const override { return "var"; }
  Array forward(const Array& x) {
    return finished(x, [](const Array& v) { return v; });
  }
  // What `finish` makes of the variance.
  template <class Finish>
  Array finished(const Array& x, const Finish& finish) const {
    const auto sum = [&](DType dtype) { return variance(x, dims, divisor, dtype); };
    return squeezed(of_powers(x, true, sum, finish), dims, keepdim);
  }
  Grads backward(const Tensor& g) override {
    const Tensor x = input(0);
    const Tensor kept = reshape(g, detail::kept_shape(input_shape(0), dims)) * (2.0 / divisor);
    const Tensor center = mean(x, dims, true);
    if (grad_enabled()) return {kept * (x - center)};
    const Array out = core::map<k::Sub>(x.array(), center.array());
    core::map_into<k::Mul>(out, kept.array(), out);  // in place: half of the memory
    return {Tensor(out)};
  }
};

struct Std : Var {
  static constexpr unsigned kSaveOutputs = 1;
  using Var::Var;
  const char* name() const override { return "std"; }
  Array forward(const Array& x) {
    return finished(x, [](const Array& v) { return core::map<k::Sqrt>(v); });
  }
  // 0 where all elements are equal, as for norm.
  Grads backward(const Tensor& g) override {
    const Tensor y = output();
    const Tensor flat = y == 0.0;
    return Var::backward(masked_fill(g / (masked_fill(y, flat, 1.0) * 2.0), flat, 0.0));
  }
};

template <class O>
O spread_op(const char* op, const Tensor& x, const VarOptions& options) {
  require_floating(op, x);
  const Dims dims = normalize_dims(op, options.dims, x.ndim());
  const double count = reduced_count(x.shape(), dims);
  // One element has no unbiased variance: 0 / 0.
  const double correction = options.correction.value_or(options.unbiased ? 1.0 : 0.0);
  return O(dims, options.keepdim, std::max(count - correction, 0.0));
}

// (sum |x|^p)^(1/p) with the gradient 0 wherever x or the norm is 0.
struct Norm : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveInputs = 1;
  static constexpr unsigned kSaveOutputs = 1;
  double p;
  Dims dims;
  bool keepdim;
  Norm(double order, const Dims& d, bool keeps) : p(order), dims(d), keepdim(keeps) {}
  const char* name() const override { return "norm"; }

  Array forward(const Array& x) {
    if (p == 1.0) return sum_of(ReduceKind::sum_abs, x);
    if (p == 2.0) {
      const auto sum = [&](DType dtype) { return reduced(ReduceKind::sum_square, x, dims, dtype); };
      const auto root = [](const Array& squares) { return core::map<k::Sqrt>(squares); };
      return squeezed(of_powers(x, true, sum, root), dims, keepdim);
    }
    if (p == kInfinity) {
      const Array low = core::map<k::Neg>(sum_of(ReduceKind::min, x));
      // Zeros have the norm 0, not -0.
      return core::map<k::Abs>(core::map<k::Maximum>(sum_of(ReduceKind::max, x), low));
    }
    if (p == -kInfinity) return sum_of(ReduceKind::min, core::map<k::Abs>(x));
    if (p == 0.0)
      return sum_of(ReduceKind::sum, core::map<k::NotEqual>(x, Scalar(0.0)).to(x.dtype()));
    const auto sum = [&](DType dtype) {
      const Array powers = core::map<k::Pow>(core::map<k::Abs>(x.to(dtype)), Scalar(p));
      return reduced(ReduceKind::sum, powers, dims, dtype);
    };
    const auto root = [&](const Array& sums) { return core::map<k::Pow>(sums, Scalar(1.0 / p)); };
    return squeezed(of_powers(x, false, sum, root), dims, keepdim);
  }

  Grads backward(const Tensor& g) override {
    if (p == 0.0) return {zeros_like(input(0))};
    const Shape kept = detail::kept_shape(input_shape(0), dims);
    const Tensor x = input(0), y = reshape(output(), kept), gy = reshape(g, kept);
    if (p == 1.0) return {gy * sign(x)};
    if (std::isinf(p)) {
      const Tensor hit = (abs(x) == y).to(g.dtype());
      return {sign(x) * hit * (gy / sum(hit, dims, true))};
    }
    const Tensor no_norm = y == 0.0;
    const Tensor safe_y = masked_fill(y, no_norm, 1.0);
    if (p == 2.0) {
      // The reciprocal of a norm may be out of range where the quotient is not. The host can look.
      constexpr double kLeast = 1e-30;
      if (core::is_host_memory(x.device()) && any(logical_and(y<kLeast, y> 0.0)).item<bool>()) {
        return {x / safe_y * masked_fill(gy, no_norm, 0.0)};
      }
      return {x * masked_fill(gy / safe_y, no_norm, 0.0)};
    }
    const Tensor none = x == 0.0;
    if (std::abs(p - 1.0) > 1.0) {
      // Powers of |x| and of y leave the range where those of their quotient, at most 1 for p > 2
      // and at least 1 for p < 0, do not, or are too small to count.
      const Tensor share = masked_fill(abs(x) / safe_y, none, 1.0);
      const Tensor slope = masked_fill(sign(x) * pow(share, p - 1.0), none, 0.0);
      return {slope * masked_fill(gy, no_norm, 0.0)};
    }
    const Tensor powers = pow(abs(masked_fill(x, none, 1.0)), p - 1.0);
    const Tensor share = masked_fill(gy / pow(safe_y, p - 1.0), no_norm, 0.0);
    return {masked_fill(sign(x) * powers, none, 0.0) * share};
  }

 private:
  Array sum_of(ReduceKind op, const Array& x) const {
    return core::reduce(op, x, dims, keepdim ? KeepDims::yes : KeepDims::no);
  }
};

}  // namespace

Tensor logsumexp(const Tensor& x, const Dims& dims, bool keepdim) {
  detail::check_defined("logsumexp", {{"x", x}});
  if (any_half(x)) {
    return in_float32("logsumexp", AutocastRule::float32, {x},
                      [=](const auto& in) { return logsumexp(in[0], dims, keepdim); });
  }
  const Tensor real = is_floating(x.dtype()) ? x : x.to(kFloat32);
  return record(LogSumExp(normalize_dims("logsumexp", dims, x.ndim()), keepdim), real);
}

Tensor var(const Tensor& x, const VarOptions& options) {
  detail::check_defined("var", {{"x", x}});
  if (any_half(x)) {
    return in_float32("var", AutocastRule::float32, {x},
                      [=](const auto& in) { return var(in[0], options); });
  }
  return record(spread_op<Var>("var", x, options), x);
}

Tensor std(const Tensor& x, const VarOptions& options) {
  detail::check_defined("std", {{"x", x}});
  if (any_half(x)) {
    return in_float32("std", AutocastRule::float32, {x},
                      [=](const auto& in) { return std(in[0], options); });
  }
  return record(spread_op<Std>("std", x, options), x);
}

StdMean std_mean(const Tensor& x, const VarOptions& options) {
  const detail::Named named("std_mean", {"x", x});
  return {std(x, options), mean(x, options.dims, options.keepdim)};
}

Tensor norm(const Tensor& x, double p, const Dims& dims, bool keepdim) {
  detail::check_defined("norm", {{"x", x}});
  require_floating("norm", x);
  if (any_half(x)) {
    return in_float32("norm", AutocastRule::float32, {x},
                      [=](const auto& in) { return norm(in[0], p, dims, keepdim); });
  }
  return record(Norm(p, normalize_dims("norm", dims, x.ndim()), keepdim), x);
}

}  // namespace hero

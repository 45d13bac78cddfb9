// Losses that compare elements. In half precision each is one operation, see [note: rounded once].
#include <cmath>
#include <limits>
#include <numbers>

#include <hero/autograd/graph/grad_mode.h>
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/index/index.h>
#include <hero/autograd/ops/losses/loss.h>
#include <hero/autograd/ops/losses/losses.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/map.h>

namespace hero {

Tensor detail::reduce_loss(const Tensor& loss, Reduction reduction) {
  if (reduction == Reduction::none) return loss;
  return reduction == Reduction::mean ? mean(loss) : sum(loss);
}

namespace {

struct Pairs : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveInputs = 0b11;
  detail::PairLoss loss;
  double parameter;
  Reduction reduction;
  Pairs(const detail::PairLoss& l, double p, Reduction r) : loss(l), parameter(p), reduction(r) {}
  const char* name() const override { return loss.name; }
  static double share(const Shape& shape) { return 1.0 / static_cast<double>(shape.numel()); }
  Array forward(const Array& x, const Array& y) {
    core::FusedExpression f(loss.name);
    const Term a = f(x), b = f(y), value = loss.value(a, b, parameter);
    if (reduction == Reduction::none) return f.run(value);
    const Array total = f.sum(value);
    if (reduction == Reduction::mean)
      core::map_into<core::kernels::Mul>(total, total, Scalar(share(x.shape())));
    return total;
  }
  Grads backward(const Tensor& g) override {
    const bool is_mean = reduction == Reduction::mean;
    FusedExpression f;
    const Term dy = f(is_mean ? g * share(input_shape(0)) : g);
    const Term a = f(input(0)), b = f(input(1));
    const bool to_y = needs(1) && loss.to_y;
    return f.run({{needs(0), loss.to_x(dy, a, b, parameter)},
                  {to_y, to_y ? loss.to_y(dy, a, b, parameter) : dy}});
  }
};

}  // namespace

Tensor detail::pair_loss(const PairLoss& loss, const Tensor& x, const Tensor& y, double parameter,
                         Reduction reduction) {
  return record(Pairs(loss, parameter, reduction), x, y);
}

void detail::check_pair(const char* op, const Tensor& x, const Tensor& y) {
  check(x.shape() == y.shape(), op, ": shapes differ: ", x.shape(), " and ", y.shape(),
        "; reshape or expand one");
  check(is_floating(x.dtype()), op, ": x is ", x.dtype(), "; convert it to a floating dtype");
}

using detail::any_half, detail::in_float32;
using detail::check_pair;
using detail::pair_loss;

Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  detail::check_defined("mse_loss", {{"x", x}, {"y", y}});
  if (const AutocastInputs in(AutocastRule::float32, x, y); in.changed()) {
    return mse_loss(in[0], in[1], reduction);
  }
  check_pair("mse_loss", x, y);
  if (any_half(x, y)) {
    return in_float32("mse_loss", AutocastRule::float32, {x, y},
                      [=](const auto& in) { return mse_loss(in[0], in[1], reduction); });
  }
  static constexpr detail::PairLoss kLoss = {
      "mse_loss", [](Term a, Term b, double) { return square(a - b); },
      [](Term dy, Term a, Term b, double) { return dy * ((a - b) * 2); },
      [](Term dy, Term a, Term b, double) { return dy * ((b - a) * 2); }};
  return pair_loss(kLoss, x, y, 0.0, reduction);
}

Tensor l1_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  detail::check_defined("l1_loss", {{"x", x}, {"y", y}});
  if (const AutocastInputs in(AutocastRule::float32, x, y); in.changed()) {
    return l1_loss(in[0], in[1], reduction);
  }
  check_pair("l1_loss", x, y);
  if (any_half(x, y)) {
    return in_float32("l1_loss", AutocastRule::float32, {x, y},
                      [=](const auto& in) { return l1_loss(in[0], in[1], reduction); });
  }
  static constexpr detail::PairLoss kLoss = {
      "l1_loss", [](Term a, Term b, double) { return abs(a - b); },
      [](Term dy, Term a, Term b, double) { return dy * sign(a - b); },
      [](Term dy, Term a, Term b, double) { return dy * sign(b - a); }};
  return pair_loss(kLoss, x, y, 0.0, reduction);
}

Tensor huber_loss(const Tensor& x, const Tensor& y, double delta, Reduction reduction) {
  detail::check_defined("huber_loss", {{"x", x}, {"y", y}});
  if (const AutocastInputs in(AutocastRule::float32, x, y); in.changed()) {
    return huber_loss(in[0], in[1], delta, reduction);
  }
  check_pair("huber_loss", x, y);
  check(delta > 0.0, "huber_loss: delta must be positive: ", delta);
  if (x.dtype() != y.dtype()) {
    return detail::in_dtype_of(x, y, [&](const Tensor& wide_x, const Tensor& wide_y) {
      return huber_loss(wide_x, wide_y, delta, reduction);
    });
  }
  if (any_half(x, y)) {
    return in_float32("huber_loss", AutocastRule::float32, {x, y},
                      [=](const auto& in) { return huber_loss(in[0], in[1], delta, reduction); });
  }
  // At delta both pieces have the same slope, and the second derivative is 0, as in PyTorch.
  // Nothing is beyond an infinite delta.
  static constexpr detail::PairLoss kLoss = {
      "huber_loss",
      [](Term a, Term b, double far) {
        const Term near = square(a - b) * 0.5, distance = abs(a - b);
        if (std::isinf(far)) return near;
        return where(distance >= far, (distance - 0.5 * far) * far, near);
      },
      [](Term dy, Term a, Term b, double far) { return dy * clamp(a - b, -far, far); },
      [](Term dy, Term a, Term b, double far) { return dy * clamp(b - a, -far, far); }};
  return pair_loss(kLoss, x, y, delta, reduction);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, double beta, Reduction reduction) {
  detail::check_defined("smooth_l1_loss", {{"x", x}, {"y", y}});
  if (const AutocastInputs in(AutocastRule::float32, x, y); in.changed()) {
    return smooth_l1_loss(in[0], in[1], beta, reduction);
  }
  check_pair("smooth_l1_loss", x, y);
  check(beta >= 0.0, "smooth_l1_loss: beta must not be negative: ", beta);
  if (beta == 0.0) return l1_loss(x, y, reduction);
  if (any_half(x, y)) {
    return in_float32("smooth_l1_loss", AutocastRule::float32, {x, y}, [=](const auto& in) {
      return smooth_l1_loss(in[0], in[1], beta, reduction);
    });
  }
  static constexpr detail::PairLoss kLoss = {
      "smooth_l1_loss",
      [](Term a, Term b, double far) {
        const Term distance = abs(a - b);
        return where(distance >= far, distance - 0.5 * far, square(a - b) * (0.5 / far));
      },
      [](Term dy, Term a, Term b, double far) { return dy * clamp((a - b) * (1.0 / far), -1, 1); },
      [](Term dy, Term a, Term b, double far) { return dy * clamp((b - a) * (1.0 / far), -1, 1); }};
  return pair_loss(kLoss, x, y, beta, reduction);
}

Tensor kl_div(const Tensor& x, const Tensor& y, KlReduction reduction, bool log_target) {
  detail::check_defined("kl_div", {{"x", x}, {"y", y}});
  if (const AutocastInputs in(AutocastRule::float32, x, y); in.changed()) {
    return kl_div(in[0], in[1], reduction, log_target);
  }
  check_pair("kl_div", x, y);
  if (any_half(x, y)) {
    return in_float32("kl_div", AutocastRule::float32, {x, y},
                      [=](const auto& in) { return kl_div(in[0], in[1], reduction, log_target); });
  }
  static constexpr detail::PairLoss kLogs = {
      "kl_div", [](Term a, Term b, double) { return exp(b) * (b - a); },
      [](Term dy, Term, Term b, double) { return -(dy * exp(b)); },
      [](Term dy, Term a, Term b, double) { return dy * (exp(b) * (b - a + 1)); }};
  // y log y is 0 at 0, where its logarithm is not finite, and has no slope there.
  static constexpr detail::PairLoss kProbabilities = {
      "kl_div",
      [](Term a, Term b, double) { return core::term<core::kernels::Xlogy>(b, b) - b * a; },
      [](Term dy, Term, Term b, double) { return -(dy * b); },
      [](Term dy, Term a, Term b, double) {
        return dy * (where_equal(b, 0, 0, log(where_equal(b, 0, 1, b)) + 1) - a);
      }};
  const auto reduced = [&](Reduction how) {
    return pair_loss(log_target ? kLogs : kProbabilities, x, y, 0.0, how);
  };
  switch (reduction) {
    case KlReduction::none:
      return reduced(Reduction::none);
    case KlReduction::mean:
      return reduced(Reduction::mean);
    case KlReduction::sum:
      return reduced(Reduction::sum);
    case KlReduction::batchmean:
      break;
  }
  // a number is a batch of one
  return x.ndim() > 0 ? reduced(Reduction::sum) / x.size(0) : reduced(Reduction::none);
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim, double eps) {
  const detail::Named named("cosine_similarity", {"a", a}, {"b", b});
  detail::check_defined("cosine_similarity", {{"a", a}, {"b", b}});
  if (const AutocastInputs in(AutocastRule::float32, a, b); in.changed()) {
    return cosine_similarity(in[0], in[1], dim, eps);
  }
  if (any_half(a, b)) {
    return in_float32("cosine_similarity", AutocastRule::float32, {a, b},
                      [=](const auto& in) { return cosine_similarity(in[0], in[1], dim, eps); });
  }
  const Shape shape = broadcast_shapes("cosine_similarity", a.shape(), b.shape());
  const Dims dims{normalize_dim("cosine_similarity", dim, shape.size())};
  const Tensor left = a.shape() == shape ? a : expand(a, shape);
  const Tensor right = b.shape() == shape ? b : expand(b, shape);
  const auto length = [&](const Tensor& x) { return clamp(norm(x, 2.0, dims), eps, std::nullopt); };
  const bool by_rows =
      dims[0] == shape.size() - 1 && left.dtype() == right.dtype() && is_floating(left.dtype());
  const Tensor products =
      by_rows ? detail::sum_of_products(left, right, 1) : sum(left * right, dims);
  const Tensor lengths = length(left) * length(right);
  // Where a product leaves the range, those of vectors of length 1 do not. The host can look.
  if (core::is_host_memory(a.device()) && is_floating(lengths.dtype())) {
    const NoGrad no_grad;
    const Tensor fits = logical_and(isfinite(products), isfinite(lengths));
    if (!all(fits).item<bool>()) {
      const EnableGrad recording;
      const auto unit = [&](const Tensor& x) {
        return x / clamp(norm(x, 2.0, dims, true), eps, std::nullopt);
      };
      return sum(unit(left) * unit(right), dims);
    }
  }
  return products / lengths;
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p, double eps, bool keepdim) {
  const detail::Named named("pairwise_distance", {"a", a}, {"b", b});
  detail::check_defined("pairwise_distance", {{"a", a}, {"b", b}});
  if (const AutocastInputs in(AutocastRule::float32, a, b); in.changed()) {
    return pairwise_distance(in[0], in[1], p, eps, keepdim);
  }
  if (detail::any_half(a, b)) {
    return detail::in_float32(
        "pairwise_distance", AutocastRule::float32, {a, b},
        [=](const auto& in) { return pairwise_distance(in[0], in[1], p, eps, keepdim); });
  }
  return norm(a - b + eps, p, {-1}, keepdim);
}

Tensor poisson_nll_loss(const Tensor& x, const Tensor& y, const PoissonNllOptions& options) {
  detail::check_defined("poisson_nll_loss", {{"x", x}, {"y", y}});
  if (const AutocastInputs in(AutocastRule::float32, x, y); in.changed()) {
    return poisson_nll_loss(in[0], in[1], options);
  }
  detail::check_pair("poisson_nll_loss", x, y);
  if (detail::any_half(x, y)) {
    return detail::in_float32(
        "poisson_nll_loss", AutocastRule::float32, {x, y},
        [=](const auto& in) { return poisson_nll_loss(in[0], in[1], options); });
  }
  static constexpr detail::PairLoss kOfLogs = {
      "poisson_nll_loss", [](Term a, Term b, double) { return exp(a) - b * a; },
      [](Term dy, Term a, Term b, double) { return dy * (exp(a) - b); },
      [](Term dy, Term a, Term, double) { return -(dy * a); }};
  static constexpr detail::PairLoss kOfRates = {
      "poisson_nll_loss", [](Term a, Term b, double eps) { return a - b * log(a + eps); },
      [](Term dy, Term a, Term b, double eps) { return dy * (1 - b / (a + eps)); },
      [](Term dy, Term a, Term, double eps) { return -(dy * log(a + eps)); }};
  const auto reduced = [&](Reduction how) {
    return detail::pair_loss(options.log_input ? kOfLogs : kOfRates, x, y, options.eps, how);
  };
  if (!options.full) return reduced(options.reduction);
  Tensor loss = reduced(Reduction::none);
  // Stirling's approximation of log y! where it is good.
  const Tensor large = y > 1, safe = where(large, y, 1);
  const Tensor stirling = safe * log(safe) - safe + log(safe * (2 * std::numbers::pi)) * 0.5;
  loss = loss + where(large, stirling, 0);
  return detail::reduce_loss(loss, options.reduction);
}

namespace {

// A variance has x's shape, x's with 1 in one dimension, x's without the last dimension, or is a
// number. What else would broadcast is more likely a mistake.
void check_variance(const char* op, const Tensor& variance, const Shape& x) {
  const Shape& shape = variance.shape();
  Shape sample = x;
  if (!sample.empty()) sample.pop_back();
  bool fits = shape.empty() || shape == sample;
  if (shape.size() == x.size()) {
    int differ = 0, ones = 0;
    for (int i = 0; i < x.size(); ++i) {
      if (shape[i] == x[i]) continue;
      ++differ;
      if (shape[i] == 1) ++ones;
    }
    fits = differ == 0 || (differ == 1 && ones == 1);
  }
  check(fits, op, ": variance ", shape, " does not fit x ", x, "; it should be ", x,
        ", that with 1 in one dimension, ", sample, " (one per sample) or []");
}

// x, y, variance: (log v + (x - y)^2 / v) / 2, where a floor of v moves the value, not the
// gradient.
struct GaussianNll : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveInputs = 0b111;
  double eps;
  explicit GaussianNll(double floor) : eps(floor) {}
  const char* name() const override { return "gaussian_nll_loss"; }
  Array forward(const Array& x, const Array& y, const Array& variance) {
    core::FusedExpression f(name());
    const Term a = f(x), b = f(y), v = clamp(f(variance), eps, detail::kUnbounded);
    return f.run((log(v) + square(a - b) / v) * 0.5);
  }
  Grads backward(const Tensor& g) override {
    FusedExpression f;
    const Term dy = f(g), d = f(input(0)) - f(input(1)), variance = f(input(2));
    const Tensor fixed = input(2).detach();
    const Term v = grad_enabled() ? variance + f(clamp(fixed, eps, {}) - fixed)
                                  : clamp(variance, eps, detail::kUnbounded);
    return f.run({{needs(0), dy * (d / v)},
                  {needs(1), -dy * (d / v)},
                  {needs(2), dy * ((1 - square(d) / v) / v * 0.5)}});
  }
};

}  // namespace

Tensor gaussian_nll_loss(const Tensor& x, const Tensor& y, const Tensor& variance,
                         const GaussianNllOptions& options) {
  detail::check_defined("gaussian_nll_loss", {{"x", x}, {"y", y}, {"variance", variance}});
  if (const AutocastInputs in(AutocastRule::float32, x, y, variance); in.changed()) {
    return gaussian_nll_loss(in[0], in[1], in[2], options);
  }
  constexpr auto kName = "gaussian_nll_loss";
  detail::check_pair(kName, x, y);
  check_variance(kName, variance, x.shape());
  if (core::has_values(variance.device()) && any(variance.detach() < 0).item<bool>()) {
    fail(kName, ": a variance is negative: ", min(variance.detach()).item());
  }
  if (detail::any_half(x, y, variance)) {
    return detail::in_float32(kName, AutocastRule::float32, {x, y, variance}, [=](const auto& in) {
      return gaussian_nll_loss(in[0], in[1], in[2], options);
    });
  }
  // One variance a sample: it counts for all of the sample's last dimension.
  if (variance.ndim() + 1 == x.ndim() && variance.ndim() > 0) {
    return gaussian_nll_loss(x, y, unsqueeze(variance, -1), options);
  }
  Tensor loss = record(GaussianNll(options.eps), x, y, variance);
  if (options.full) loss = loss + 0.5 * std::log(2 * std::numbers::pi);
  return detail::reduce_loss(loss, options.reduction);
}

}  // namespace hero

// Losses that ask for a margin: between classes, pairs and triplets.
#include <cmath>
#include <limits>
#include <numbers>

#include <hero/autograd/graph/grad_mode.h>
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/losses/loss.h>
#include <hero/autograd/ops/nn/nn.h>

namespace hero {

namespace {

using detail::any_half, detail::in_float32;

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

Tensor above_zero(const Tensor& x) { return clamp(x, 0.0, {}); }

// Targets of pairs are 1 or -1, in any dtype.
void check_signs(const char* op, const Tensor& y, const Shape& expected) {
  check(y.shape() == expected, op, ": target ", y.shape(),
        " does not fit the inputs; it should be ", expected);
}

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

}  // namespace

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& y, double margin, Reduction reduction) {
  detail::check_defined("hinge_embedding_loss", {{"x", x}, {"y", y}});
  if (const AutocastInputs in("hinge_embedding_loss", x, y); in.changed()) {
    return hinge_embedding_loss(in[0], in[1], margin, reduction);
  }
  constexpr auto kName = "hinge_embedding_loss";
  detail::check_pair(kName, x, y);
  if (any_half(x, y)) {
    return in_float32(kName, {x, y},
                      [=](const auto& in) {
                        return hinge_embedding_loss(in[0], in[1], margin, reduction);
                      })
        .to(x.dtype());
  }
  static constexpr detail::PairLoss kLoss = {
      kName,
      [](Term a, Term b, double far) {
        const Term apart = where_equal(b, 1, 0, clamp(far - a, 0, kUnbounded));
        return apart + where_equal(b, -1, 0, a);
      },
      [](Term dy, Term a, Term b, double far) {
        const Term apart = where_equal(b, 1, 0, where(a < far, -dy, 0));
        return apart + where_equal(b, -1, 0, dy);
      },
      nullptr};
  return detail::reduce_loss(detail::pair_loss(kLoss, x, y, margin).to(x.dtype()), reduction);
}

Tensor soft_margin_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  detail::check_defined("soft_margin_loss", {{"x", x}, {"y", y}});
  if (const AutocastInputs in("soft_margin_loss", x, y); in.changed()) {
    return soft_margin_loss(in[0], in[1], reduction);
  }
  detail::check_pair("soft_margin_loss", x, y);
  if (x.dtype() != y.dtype()) {
    return detail::in_dtype_of(x, y, [&](const Tensor& wide_x, const Tensor& wide_y) {
      return soft_margin_loss(wide_x, wide_y, reduction);
    });
  }
  if (any_half(x, y)) {
    return in_float32("soft_margin_loss", {x, y},
                      [=](const auto& in) { return soft_margin_loss(in[0], in[1], reduction); });
  }
  static constexpr detail::PairLoss kLoss = {
      "soft_margin_loss", [](Term a, Term b, double) { return -logsigmoid(a * b); },
      [](Term dy, Term a, Term b, double) { return -(dy * sigmoid(-(a * b))) * b; },
      [](Term dy, Term a, Term b, double) { return -(dy * sigmoid(-(a * b))) * a; }};
  return detail::pair_loss(kLoss, x, y, 0.0, reduction);
}

Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& y, double margin,
                           Reduction reduction) {
  detail::check_defined("margin_ranking_loss", {{"a", a}, {"b", b}, {"y", y}});
  if (const AutocastInputs in("margin_ranking_loss", a, b); in.changed()) {
    return margin_ranking_loss(in[0], in[1], y, margin, reduction);
  }
  constexpr auto kName = "margin_ranking_loss";
  detail::check_pair(kName, a, b);
  check_signs(kName, y, a.shape());
  if (any_half(a, b, y)) {
    return in_float32(kName, {a, b, y}, [=](const auto& in) {
      return margin_ranking_loss(in[0], in[1], in[2], margin, reduction);
    });
  }
  return detail::reduce_loss(above_zero(margin - y * (a - b)), reduction);
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& y, double margin,
                             Reduction reduction) {
  detail::check_defined("cosine_embedding_loss", {{"a", a}, {"b", b}, {"y", y}});
  if (const AutocastInputs in("cosine_embedding_loss", a, b); in.changed()) {
    return cosine_embedding_loss(in[0], in[1], y, margin, reduction);
  }
  constexpr auto kName = "cosine_embedding_loss";
  constexpr double kSmallest = 1e-12;  // PyTorch's guard against a vector of zeros
  detail::check_pair(kName, a, b);
  check(a.ndim() == 1 || a.ndim() == 2, kName, ": inputs must be [N, D] or [D]: got shape ",
        a.shape());
  check_signs(kName, y, a.ndim() == 2 ? Shape{a.size(0)} : Shape{});
  if (any_half(a, b, y)) {
    return in_float32(kName, {a, b, y}, [=](const auto& in) {
      return cosine_embedding_loss(in[0], in[1], in[2], margin, reduction);
    });
  }
  const auto square_length = [](const Tensor& x) { return sum(square(x), {-1}) + kSmallest; };
  const Tensor cosine = sum(a * b, {-1}) / sqrt(square_length(a) * square_length(b));
  const Tensor close = where(y == 1, 1 - cosine, 0);
  const Tensor apart = where(y == -1, above_zero(cosine - margin), 0);
  return detail::reduce_loss(close + apart, reduction);
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p, double eps, bool keepdim) {
  const detail::Named named("pairwise_distance", {"a", a}, {"b", b});
  detail::check_defined("pairwise_distance", {{"a", a}, {"b", b}});
  if (const AutocastInputs in("pairwise_distance", a, b); in.changed()) {
    return pairwise_distance(in[0], in[1], p, eps, keepdim);
  }
  if (any_half(a, b)) {
    return in_float32("pairwise_distance", {a, b}, [=](const auto& in) {
      return pairwise_distance(in[0], in[1], p, eps, keepdim);
    });
  }
  return norm(a - b + eps, p, {-1}, keepdim);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options) {
  detail::check_defined("triplet_margin_loss",
                        {{"anchor", anchor}, {"positive", positive}, {"negative", negative}});
  if (const AutocastInputs in("triplet_margin_loss", anchor, positive, negative); in.changed()) {
    return triplet_margin_loss(in[0], in[1], in[2], options);
  }
  constexpr auto kName = "triplet_margin_loss";
  detail::check_pair(kName, anchor, positive);
  detail::check_pair(kName, anchor, negative);
  check(options.margin > 0.0, kName, ": margin must be positive: ", options.margin);
  if (any_half(anchor, positive, negative)) {
    return in_float32(kName, {anchor, positive, negative}, [=](const auto& in) {
      return triplet_margin_loss(in[0], in[1], in[2], options);
    });
  }
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return pairwise_distance(a, b, options.p, options.eps);
  };
  Tensor far = distance(anchor, negative);
  if (options.swap) far = minimum(far, distance(positive, negative));
  const Tensor loss = above_zero(distance(anchor, positive) - far + options.margin);
  return detail::reduce_loss(loss, options.reduction);
}

Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive,
                                         const Tensor& negative,
                                         const TripletMarginWithDistanceOptions& options) {
  constexpr auto kName = "triplet_margin_with_distance_loss";
  detail::check_defined(kName,
                        {{"anchor", anchor}, {"positive", positive}, {"negative", negative}});
  detail::check_pair(kName, anchor, positive);
  detail::check_pair(kName, anchor, negative);
  check(options.margin > 0.0, kName, ": margin must be positive: ", options.margin);
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return options.distance_function ? options.distance_function(a, b) : pairwise_distance(a, b);
  };
  const Tensor near = distance(anchor, positive);
  Tensor far = distance(anchor, negative);
  if (options.swap) far = minimum(far, distance(positive, negative));
  return detail::reduce_loss(above_zero(near - far + options.margin), options.reduction);
}

Tensor multi_margin_loss(const Tensor& x, const Tensor& target, const MultiMarginOptions& options) {
  const detail::Named named("multi_margin_loss", {"x", x}, {"target", target});
  detail::check_defined("multi_margin_loss", {{"x", x}, {"target", target}});
  if (const AutocastInputs in("multi_margin_loss", x); in.changed()) {
    return multi_margin_loss(in[0], target, options);
  }
  constexpr auto kName = "multi_margin_loss";
  // One row may come without its dimension, and so may its class, whose shape the loss has.
  if (target.ndim() <= 1 && target.numel() == 1 && (x.ndim() <= 1 || target.ndim() == 0)) {
    const Tensor rows = x.ndim() <= 1 ? reshape(x, {1, x.numel()}) : x;
    const Tensor loss = multi_margin_loss(rows, reshape(target, {1}), options);
    return options.reduction == Reduction::none ? reshape(loss, target.shape()) : loss;
  }
  check(x.ndim() == 1 || x.ndim() == 2, kName, ": x must be [N, C] or [C]: got shape ", x.shape());
  check(x.ndim() != 1, kName, ": target ", target.shape(), " does not fit scores ", x.shape(),
        "; it should be [] or [1]");
  check(target.shape() == Shape{x.size(0)}, kName, ": target ", target.shape(),
        " does not fit scores ", x.shape(), "; it should be ", Shape{x.size(0)});
  check(options.p == 1 || options.p == 2, kName, ": p must be 1 or 2: ", options.p);
  const int64_t classes = x.size(1);
  check(!options.weight.defined() || options.weight.shape() == Shape{classes}, kName,
        ": weight does not fit ", classes, " classes");
  if (any_half(x, options.weight)) {
    return in_float32(kName, {x, target, options.weight}, [=](const auto& in) {
      MultiMarginOptions wide = options;
      wide.weight = in[2];
      return multi_margin_loss(in[0], in[1], wide);
    });
  }
  const Tensor column = unsqueeze(target, 1);
  Tensor gap = above_zero(x - gather(x, 1, column) + options.margin);
  if (options.p == 2) gap = square(gap);
  if (options.weight.defined()) gap = gap * unsqueeze(index_select(options.weight, 0, target), 1);
  const Tensor others = column != arange(classes, {.device = x.device()});
  const Tensor loss = sum(where(others, gap, 0), {1}) / classes;
  return detail::reduce_loss(loss, options.reduction);
}

Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& y, const Tensor& weight,
                                   Reduction reduction) {
  const detail::Named named("multilabel_soft_margin_loss", {"x", x}, {"y", y});
  detail::check_defined("multilabel_soft_margin_loss", {{"x", x}, {"y", y}});
  if (const AutocastInputs in("multilabel_soft_margin_loss", x, y); in.changed()) {
    return multilabel_soft_margin_loss(in[0], in[1], weight, reduction);
  }
  constexpr auto kName = "multilabel_soft_margin_loss";
  detail::check_pair(kName, x, y);
  check(x.ndim() > 0, kName, ": x needs a dimension of classes: got a scalar");
  if (any_half(x, y, weight)) {
    return in_float32(kName, {x, y, weight}, [=](const auto& in) {
      return multilabel_soft_margin_loss(in[0], in[1], in[2], reduction);
    });
  }
  // (1 - y) x - log sigmoid(x), as two logarithms
  static constexpr detail::PairLoss kLoss = {
      kName, [](Term a, Term b, double) { return -(b * logsigmoid(a) + (1 - b) * logsigmoid(-a)); },
      [](Term dy, Term a, Term b, double) { return dy * ((1 - b) * sigmoid(a) - b * sigmoid(-a)); },
      [](Term dy, Term a, Term, double) { return -(dy * a); }};
  Tensor loss = detail::pair_loss(kLoss, x, y);
  if (weight.defined()) loss = loss * weight;
  return detail::reduce_loss(mean(loss, {-1}), reduction);
}

Tensor poisson_nll_loss(const Tensor& x, const Tensor& y, const PoissonNllOptions& options) {
  detail::check_defined("poisson_nll_loss", {{"x", x}, {"y", y}});
  if (const AutocastInputs in("poisson_nll_loss", x, y); in.changed()) {
    return poisson_nll_loss(in[0], in[1], options);
  }
  detail::check_pair("poisson_nll_loss", x, y);
  if (any_half(x, y)) {
    return in_float32("poisson_nll_loss", {x, y},
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

// x, y, variance: (log v + (x - y)^2 / v) / 2, where a floor of v moves the value, not the
// gradient.
struct GaussianNll : Op {
  static constexpr unsigned kSaveInputs = 0b111;
  double eps;
  explicit GaussianNll(double floor) : eps(floor) {}
  const char* name() const override { return "gaussian_nll_loss"; }
  Array forward(const Array& x, const Array& y, const Array& variance) {
    core::Formula f(name());
    const Term a = f(x), b = f(y), v = clamp(f(variance), eps, kUnbounded);
    return f.run((log(v) + square(a - b) / v) * 0.5);
  }
  Grads backward(const Tensor& g) override {
    Formula f;
    const Term dy = f(g), d = f(input(0)) - f(input(1)), variance = f(input(2));
    const Tensor fixed = input(2).detach();
    const Term v = grad_enabled() ? variance + f(clamp(fixed, eps, {}) - fixed)
                                  : clamp(variance, eps, kUnbounded);
    return f.run({{needs(0), dy * (d / v)},
                  {needs(1), -dy * (d / v)},
                  {needs(2), dy * ((1 - square(d) / v) / v * 0.5)}});
  }
};

}  // namespace

Tensor gaussian_nll_loss(const Tensor& x, const Tensor& y, const Tensor& variance,
                         const GaussianNllOptions& options) {
  detail::check_defined("gaussian_nll_loss", {{"x", x}, {"y", y}, {"variance", variance}});
  if (const AutocastInputs in("gaussian_nll_loss", x, y, variance); in.changed()) {
    return gaussian_nll_loss(in[0], in[1], in[2], options);
  }
  constexpr auto kName = "gaussian_nll_loss";
  detail::check_pair(kName, x, y);
  check_variance(kName, variance, x.shape());
  if (variance.device() != kMeta && any(variance.detach() < 0).item<bool>()) {
    fail(kName, ": a variance is negative: ", min(variance.detach()).item());
  }
  if (any_half(x, y, variance)) {
    return in_float32(kName, {x, y, variance}, [=](const auto& in) {
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

// Losses that ask for a margin: between classes, pairs and triplets.
#include <cmath>
#include <numbers>

#include <hero/autograd/autocast.h>
#include <hero/autograd/creation.h>
#include <hero/autograd/nn_ops.h>
#include <hero/autograd/ops/loss.h>

namespace hero {

namespace {

Tensor above_zero(const Tensor& x) { return clamp(x, 0.0, {}); }

// Targets of pairs are 1 or -1, in any dtype.
void check_signs(const char* op, const Tensor& y, const Shape& expected) {
  check(y.shape() == expected, op, ": target ", y.shape(),
        " does not fit the inputs; it should be ", expected);
}

}  // namespace

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& y, double margin, Reduction reduction) {
  if (const AutocastInputs in("hinge_embedding_loss", x, y); in.changed()) {
    return hinge_embedding_loss(in[0], in[1], margin, reduction);
  }
  constexpr auto kName = "hinge_embedding_loss";
  detail::check_pair(kName, x, y);
  const Tensor apart = where(y != 1, above_zero(margin - x), 0);
  const Tensor close = where(y != -1, x, 0);
  return detail::reduce_loss(apart + close, reduction);
}

Tensor soft_margin_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  if (const AutocastInputs in("soft_margin_loss", x, y); in.changed()) {
    return soft_margin_loss(in[0], in[1], reduction);
  }
  detail::check_pair("soft_margin_loss", x, y);
  return detail::in_dtype_of(x, y, [&](const Tensor& wide_x, const Tensor& wide_y) {
    return detail::reduce_loss(-logsigmoid(wide_x * wide_y), reduction);
  });
}

Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& y, double margin,
                           Reduction reduction) {
  if (const AutocastInputs in("margin_ranking_loss", a, b); in.changed()) {
    return margin_ranking_loss(in[0], in[1], y, margin, reduction);
  }
  constexpr auto kName = "margin_ranking_loss";
  detail::check_pair(kName, a, b);
  check_signs(kName, y, a.shape());
  return detail::reduce_loss(above_zero(margin - y * (a - b)), reduction);
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& y, double margin,
                             Reduction reduction) {
  if (const AutocastInputs in("cosine_embedding_loss", a, b); in.changed()) {
    return cosine_embedding_loss(in[0], in[1], y, margin, reduction);
  }
  constexpr auto kName = "cosine_embedding_loss";
  constexpr double kSmallest = 1e-12;  // PyTorch's guard against a vector of zeros
  detail::check_pair(kName, a, b);
  check(a.ndim() == 1 || a.ndim() == 2, kName, ": inputs must be [N, D] or [D]: got shape ",
        a.shape());
  check_signs(kName, y, a.ndim() == 2 ? Shape{a.size(0)} : Shape{});
  const auto square_length = [](const Tensor& x) { return sum(square(x), {-1}) + kSmallest; };
  const Tensor cosine = sum(a * b, {-1}) / sqrt(square_length(a) * square_length(b));
  const Tensor close = where(y == 1, 1 - cosine, 0);
  const Tensor apart = where(y == -1, above_zero(cosine - margin), 0);
  return detail::reduce_loss(close + apart, reduction);
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p, double eps, bool keepdim) {
  if (const AutocastInputs in("pairwise_distance", a, b); in.changed()) {
    return pairwise_distance(in[0], in[1], p, eps, keepdim);
  }
  return norm(a - b + eps, p, {-1}, keepdim);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options) {
  if (const AutocastInputs in("triplet_margin_loss", anchor, positive, negative); in.changed()) {
    return triplet_margin_loss(in[0], in[1], in[2], options);
  }
  constexpr auto kName = "triplet_margin_loss";
  detail::check_pair(kName, anchor, positive);
  detail::check_pair(kName, anchor, negative);
  check(options.margin > 0.0, kName, ": margin must be positive: ", options.margin);
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return pairwise_distance(a, b, options.p, options.eps);
  };
  Tensor far = distance(anchor, negative);
  if (options.swap) far = minimum(far, distance(positive, negative));
  const Tensor loss = above_zero(distance(anchor, positive) - far + options.margin);
  return detail::reduce_loss(loss, options.reduction);
}

Tensor multi_margin_loss(const Tensor& x, const Tensor& target, const MultiMarginOptions& options) {
  if (const AutocastInputs in("multi_margin_loss", x); in.changed()) {
    return multi_margin_loss(in[0], target, options);
  }
  constexpr auto kName = "multi_margin_loss";
  // One row may come without its dimension, and so may its class, whose shape the loss has.
  if (target.ndim() <= 1 && target.numel() == 1 && (x.ndim() == 1 || target.ndim() == 0)) {
    const Tensor rows = x.ndim() == 1 ? unsqueeze(x, 0) : x;
    const Tensor loss = multi_margin_loss(rows, reshape(target, {1}), options);
    return options.reduction == Reduction::none ? reshape(loss, target.shape()) : loss;
  }
  check(x.ndim() == 2, kName, ": x must be [N, C] or [C]: got shape ", x.shape());
  check(target.shape() == Shape{x.size(0)}, kName, ": target ", target.shape(),
        " does not fit scores ", x.shape(), "; it should be ", Shape{x.size(0)});
  check(options.p == 1 || options.p == 2, kName, ": p must be 1 or 2: ", options.p);
  const int64_t classes = x.size(1);
  check(!options.weight.defined() || options.weight.shape() == Shape{classes}, kName,
        ": weight does not fit ", classes, " classes");
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
  if (const AutocastInputs in("multilabel_soft_margin_loss", x, y); in.changed()) {
    return multilabel_soft_margin_loss(in[0], in[1], weight, reduction);
  }
  constexpr auto kName = "multilabel_soft_margin_loss";
  detail::check_pair(kName, x, y);
  check(x.ndim() > 0, kName, ": x needs a dimension of classes: got a scalar");
  Tensor loss = -(y * logsigmoid(x) + (1 - y) * logsigmoid(-x));
  if (weight.defined()) loss = loss * weight;
  return detail::reduce_loss(mean(loss, {-1}), reduction);
}

Tensor poisson_nll_loss(const Tensor& x, const Tensor& y, const PoissonNllOptions& options) {
  if (const AutocastInputs in("poisson_nll_loss", x, y); in.changed()) {
    return poisson_nll_loss(in[0], in[1], options);
  }
  detail::check_pair("poisson_nll_loss", x, y);
  Tensor loss = options.log_input ? exp(x) - y * x : x - y * log(x + options.eps);
  if (options.full) {
    // Stirling's approximation of log y! where it is good.
    const Tensor large = y > 1, safe = where(large, y, 1);
    const Tensor stirling = safe * log(safe) - safe + log(safe * (2 * std::numbers::pi)) * 0.5;
    loss = loss + where(large, stirling, 0);
  }
  return detail::reduce_loss(loss, options.reduction);
}

Tensor gaussian_nll_loss(const Tensor& x, const Tensor& y, const Tensor& variance,
                         const GaussianNllOptions& options) {
  if (const AutocastInputs in("gaussian_nll_loss", x, y, variance); in.changed()) {
    return gaussian_nll_loss(in[0], in[1], in[2], options);
  }
  constexpr auto kName = "gaussian_nll_loss";
  detail::check_pair(kName, x, y);
  check(broadcast_shapes(kName, variance.shape(), x.shape()) == x.shape(), kName, ": variance ",
        variance.shape(), " does not broadcast to ", x.shape());
  check(variance.device() == kMeta || variance.numel() == 0 || min(variance.detach()).item() >= 0.0,
        kName, ": a variance is negative");
  // The floor moves the value, not the gradient.
  const Tensor raised = clamp(variance.detach(), options.eps, {}) - variance.detach();
  const Tensor v = variance + raised;
  Tensor loss = (log(v) + square(x - y) / v) * 0.5;
  if (options.full) loss = loss + 0.5 * std::log(2 * std::numbers::pi);
  return detail::reduce_loss(loss, options.reduction);
}

}  // namespace hero

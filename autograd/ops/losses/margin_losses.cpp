// Losses with a margin: between classes, pairs and triplets.
#include <cmath>
#include <limits>
#include <numbers>

#include <hero/autograd/graph/grad_mode.h>
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/losses/loss.h>

namespace hero {

namespace {

using detail::any_half, detail::in_float32;

Tensor above_zero(const Tensor& x) { return clamp(x, 0.0, {}); }

// Targets of pairs are 1 or -1, in any dtype.
void check_signs(const char* op, const Tensor& y, const Shape& expected) {
  check(y.shape() == expected, op, ": target ", y.shape(),
        " does not fit the inputs; it should be ", expected);
}

}  // namespace

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& y, double margin, Reduction reduction) {
  detail::check_defined("hinge_embedding_loss", {{"x", x}, {"y", y}});
  if (const AutocastInputs in(AutocastRule::float32, x, y); in.changed()) {
    return hinge_embedding_loss(in[0], in[1], margin, reduction);
  }
  constexpr auto kName = "hinge_embedding_loss";
  detail::check_pair(kName, x, y);
  if (any_half(x, y)) {
    return in_float32(kName, AutocastRule::float32, {x, y},
                      [=](const auto& in) {
                        return hinge_embedding_loss(in[0], in[1], margin, reduction);
                      })
        .to(x.dtype());
  }
  static constexpr detail::PairLoss kLoss = {
      kName,
      [](Term a, Term b, double far) {
        const Term apart = where_equal(b, 1, 0, clamp(far - a, 0, detail::kUnbounded));
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
  if (const AutocastInputs in(AutocastRule::float32, x, y); in.changed()) {
    return soft_margin_loss(in[0], in[1], reduction);
  }
  detail::check_pair("soft_margin_loss", x, y);
  if (x.dtype() != y.dtype()) {
    return detail::in_dtype_of(x, y, [&](const Tensor& wide_x, const Tensor& wide_y) {
      return soft_margin_loss(wide_x, wide_y, reduction);
    });
  }
  if (any_half(x, y)) {
    return in_float32("soft_margin_loss", AutocastRule::float32, {x, y},
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
  if (const AutocastInputs in(AutocastRule::float32, a, b); in.changed()) {
    return margin_ranking_loss(in[0], in[1], y, margin, reduction);
  }
  constexpr auto kName = "margin_ranking_loss";
  detail::check_pair(kName, a, b);
  check_signs(kName, y, a.shape());
  if (any_half(a, b, y)) {
    return in_float32(kName, AutocastRule::float32, {a, b, y}, [=](const auto& in) {
      return margin_ranking_loss(in[0], in[1], in[2], margin, reduction);
    });
  }
  return detail::reduce_loss(above_zero(margin - y * (a - b)), reduction);
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& y, double margin,
                             Reduction reduction) {
  detail::check_defined("cosine_embedding_loss", {{"a", a}, {"b", b}, {"y", y}});
  if (const AutocastInputs in(AutocastRule::float32, a, b); in.changed()) {
    return cosine_embedding_loss(in[0], in[1], y, margin, reduction);
  }
  constexpr auto kName = "cosine_embedding_loss";
  constexpr double kSmallest = 1e-12;  // PyTorch's guard against a vector of zeros
  detail::check_pair(kName, a, b);
  check(a.ndim() == 1 || a.ndim() == 2, kName, ": inputs must be [N, D] or [D]: got shape ",
        a.shape());
  check_signs(kName, y, a.ndim() == 2 ? Shape{a.size(0)} : Shape{});
  if (any_half(a, b, y)) {
    return in_float32(kName, AutocastRule::float32, {a, b, y}, [=](const auto& in) {
      return cosine_embedding_loss(in[0], in[1], in[2], margin, reduction);
    });
  }
  const auto square_length = [](const Tensor& x) { return sum(square(x), {-1}) + kSmallest; };
  const Tensor cosine = sum(a * b, {-1}) / sqrt(square_length(a) * square_length(b));
  const Tensor close = where(y == 1, 1 - cosine, 0);
  const Tensor apart = where(y == -1, above_zero(cosine - margin), 0);
  return detail::reduce_loss(close + apart, reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options) {
  detail::check_defined("triplet_margin_loss",
                        {{"anchor", anchor}, {"positive", positive}, {"negative", negative}});
  if (const AutocastInputs in(AutocastRule::float32, anchor, positive, negative); in.changed()) {
    return triplet_margin_loss(in[0], in[1], in[2], options);
  }
  constexpr auto kName = "triplet_margin_loss";
  detail::check_pair(kName, anchor, positive);
  detail::check_pair(kName, anchor, negative);
  check(options.margin > 0.0, kName, ": margin must be positive: ", options.margin);
  if (any_half(anchor, positive, negative)) {
    return in_float32(
        kName, AutocastRule::float32, {anchor, positive, negative},
        [=](const auto& in) { return triplet_margin_loss(in[0], in[1], in[2], options); });
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
  if (const AutocastInputs in(AutocastRule::float32, x); in.changed()) {
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
  check(x.ndim() != 1, kName, ": target ", target.shape(), " does not fit logits ", x.shape(),
        "; it should be [] or [1]");
  check(target.shape() == Shape{x.size(0)}, kName, ": target ", target.shape(),
        " does not fit logits ", x.shape(), "; it should be ", Shape{x.size(0)});
  check(options.p == 1 || options.p == 2, kName, ": p must be 1 or 2: ", options.p);
  const int64_t classes = x.size(1);
  check(!options.weight.defined() || options.weight.shape() == Shape{classes}, kName,
        ": weight does not fit ", classes, " classes");
  if (any_half(x, options.weight)) {
    return in_float32(kName, AutocastRule::float32, {x, target, options.weight},
                      [=](const auto& in) {
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
  if (const AutocastInputs in(AutocastRule::float32, x, y); in.changed()) {
    return multilabel_soft_margin_loss(in[0], in[1], weight, reduction);
  }
  constexpr auto kName = "multilabel_soft_margin_loss";
  detail::check_pair(kName, x, y);
  check(x.ndim() > 0, kName, ": x needs a dimension of classes: got a scalar");
  if (any_half(x, y, weight)) {
    return in_float32(kName, AutocastRule::float32, {x, y, weight}, [=](const auto& in) {
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

Tensor multilabel_margin_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  detail::check_defined("multilabel_margin_loss", {{"x", x}, {"y", y}});
  if (x.ndim() == 0 && y.ndim() == 0) {  // one class, so nothing can be wrong
    return multilabel_margin_loss(reshape(x, {1}), reshape(y, {1}), reduction);
  }
  check((x.ndim() == 1 || x.ndim() == 2) && x.shape() == y.shape(),
        "multilabel_margin_loss: logits ", x.shape(), " and classes ", y.shape(),
        " must be [N, C] or [C]");
  check(y.dtype() == kInt64, "multilabel_margin_loss: classes are ", y.dtype(),
        "; they must be int64");
  if (detail::any_half(x)) {
    return detail::in_float32(
        "multilabel_margin_loss", AutocastRule::fallthrough, {x, y},
        [reduction](const auto& in) { return multilabel_margin_loss(in[0], in[1], reduction); });
  }
  // What stands behind the first -1 does not count.
  const Tensor listed = cumsum((y < 0).to(kInt64), -1) == 0;
  const Tensor classes = where(listed, y, 0);
  const Tensor marks = scatter_add(zeros_like(y), -1, classes, listed.to(kInt64));
  const Tensor right = gather(x, -1, classes);
  // [.., right j, wrong i]
  const Tensor gap = relu(1.0 - (unsqueeze(right, -1) - unsqueeze(x, -2)));
  const Tensor counts = logical_and(unsqueeze(listed, -1), unsqueeze(marks == 0, -2));
  const Tensor loss = sum(where(counts, gap, 0), Dims{-2, -1}) / static_cast<double>(x.size(-1));
  if (reduction == Reduction::none) return loss;
  return reduction == Reduction::sum ? sum(loss) : mean(loss);
}

}  // namespace hero

// Losses of probabilities: binary cross entropy and cross entropy against class probabilities.
#include <limits>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/losses/loss.h>
#include <hero/autograd/ops/losses/losses.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/map.h>

namespace hero {

namespace {

namespace k = core::kernels;
using detail::any_half, detail::in_float32;

// Logarithms stop here, as in PyTorch, so that a certain and wrong prediction has a finite loss.
constexpr double kLogFloor = -100.0;
constexpr double kNoUpper = std::numeric_limits<double>::infinity();

Term floored(Term log_p) { return clamp(log_p, kLogFloor, kNoUpper); }

// -(y log x + (1 - y) log(1 - x)); the gradient is finite at 0 and 1 too.
constexpr detail::PairLoss kOfProbabilities = {
    "binary_cross_entropy",
    [](Term x, Term y, double) { return (y - 1.0) * floored(log1p(-x)) - y * floored(log(x)); },
    [](Term dy, Term x, Term y, double smallest) {
      return dy * (x - y) / clamp((1 - x) * x, smallest, kNoUpper);
    },
    [](Term dy, Term x, Term, double) { return dy * (floored(log1p(-x)) - floored(log(x))); }};
constexpr double kSmallest = 1e-12;

// (1 - y) x - log sigmoid(x). A small probability of what is not so is not lost beside 1.
constexpr detail::PairLoss kOfLogits = {
    "binary_cross_entropy_with_logits",
    [](Term x, Term y, double) { return (1 - y) * x - logsigmoid(x); },
    [](Term dy, Term x, Term y, double) { return dy * ((1 - y) * sigmoid(x) - y * sigmoid(-x)); },
    [](Term dy, Term x, Term, double) { return -(dy * x); }};

// NaN is none.
void check_probabilities(const char* what, const Tensor& p) {
  if (!core::has_values(p.device()) || p.numel() == 0) return;
  const NoGrad no_grad;
  const double lowest = min(p).item(), highest = max(p).item();
  check(lowest >= 0.0 && highest <= 1.0, "binary_cross_entropy: ", what,
        " holds values outside [0, 1]: lowest ", lowest, ", highest ", highest,
        "; apply sigmoid or use bce_with_logits");
}

// (1 - y) x - (1 + (p - 1) y) log sigmoid(x). As a sum of the terms' own derivatives that of x
// would lose its digits where y is 0 and x far below 0.
struct WeightedBceWithLogits : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 0b111;
  const char* name() const override { return "bce_with_logits"; }
  Array forward(const Array& of_x, const Array& of_y, const Array& of_p) {
    const NoGrad no_grad;
    const Tensor x(of_x), y(of_y), p(of_p);
    return ((1 - y) * x - ((p - 1) * y + 1) * logsigmoid(x)).array();
  }
  Grads backward(const Tensor& g) override {
    const Tensor x = input(0), y = input(1), p = input(2);
    Grads grads;
    grads.resize(input_count());
    if (needs(0)) grads[0] = g * ((1 - y) * sigmoid(x) - p * (y * sigmoid(-x)));
    if (needs(1)) grads[1] = g * ((1 - p) * logsigmoid(x) - x);
    if (needs(2)) grads[2] = -(g * (y * logsigmoid(x)));
    return grads;
  }
};

void check_weight(const char* op, const char* what, const Tensor& weight, const Shape& shape) {
  const int lead = shape.size() - weight.ndim();
  bool fits = lead >= 0;
  for (int i = 0; fits && i < weight.ndim(); ++i) {
    fits = weight.size(i) == 1 || weight.size(i) == shape[lead + i];
  }
  check(fits, op, ": ", what, " ", weight.shape(), " does not broadcast to ", shape);
}

}  // namespace

Tensor binary_cross_entropy(const Tensor& x, const Tensor& y, const BceOptions& options) {
  detail::check_defined("binary_cross_entropy", {{"x", x}, {"y", y}});
  if (const AutocastInputs in(AutocastRule::float32, x, y); in.changed()) {
    return binary_cross_entropy(in[0], in[1], options);
  }
  constexpr auto kName = "binary_cross_entropy";
  detail::check_pair(kName, x, y);
  check(is_floating(y.dtype()), kName, ": y is ", y.dtype(), "; convert it to a floating dtype");
  if (x.dtype() != y.dtype()) {
    return detail::in_dtype_of(x, y, [&](const Tensor& wide_x, const Tensor& wide_y) {
      return binary_cross_entropy(wide_x, wide_y, options);
    });
  }
  check_probabilities("x", x);
  check_probabilities("y", y);
  if (any_half(x, y, options.weight)) {
    return in_float32(kName, AutocastRule::float32, {x, y, options.weight},
                      [=](const auto& in) {
                        return binary_cross_entropy(
                            in[0], in[1], {.weight = in[2], .reduction = options.reduction});
                      })
        .to(x.dtype());
  }
  if (!options.weight.defined()) {
    return detail::pair_loss(kOfProbabilities, x, y, kSmallest, options.reduction);
  }
  check_weight(kName, "weight", options.weight, x.shape());
  const Tensor loss = detail::pair_loss(kOfProbabilities, x, y, kSmallest);
  return detail::reduce_loss((loss * options.weight).to(x.dtype()), options.reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& y,
                                        const BceWithLogitsOptions& options) {
  const detail::Named named("binary_cross_entropy_with_logits", {"x", x}, {"y", y});
  detail::check_defined("binary_cross_entropy_with_logits", {{"x", x}, {"y", y}});
  if (const AutocastInputs in(AutocastRule::float32, x, y); in.changed()) {
    return binary_cross_entropy_with_logits(in[0], in[1], options);
  }
  constexpr auto kName = "bce_with_logits";
  detail::check_pair(kName, x, y);
  check(is_floating(y.dtype()), kName, ": y is ", y.dtype(), "; convert it to a floating dtype");
  if (any_half(x, y, options.weight, options.pos_weight)) {
    return in_float32(kName, AutocastRule::fallthrough, {x, y, options.weight, options.pos_weight},
                      [=](const auto& in) {
                        return binary_cross_entropy_with_logits(
                            in[0], in[1],
                            {.weight = in[2], .pos_weight = in[3], .reduction = options.reduction});
                      })
        .to(promote(x.dtype(), y.dtype()));
  }
  if (!options.weight.defined() && !options.pos_weight.defined()) {
    return detail::pair_loss(kOfLogits, x, y, 0.0, options.reduction);
  }
  Tensor loss;
  if (options.pos_weight.defined()) {
    check_weight(kName, "pos_weight", options.pos_weight, y.shape());
    loss = record(WeightedBceWithLogits{}, x, y, options.pos_weight);
  } else {
    loss = detail::pair_loss(kOfLogits, x, y);
  }
  // Weights do not promote.
  const DType dtype = promote(x.dtype(), y.dtype());
  if (options.weight.defined()) {
    check_weight(kName, "weight", options.weight, x.shape());
    loss = loss * options.weight;
  }
  return detail::reduce_loss(loss.to(dtype), options.reduction);
}

Tensor bce_with_logits(const Tensor& x, const Tensor& y, const Tensor& pos_weight,
                       Reduction reduction) {
  const detail::Named named("bce_with_logits", {"x", x}, {"y", y});
  return binary_cross_entropy_with_logits(x, y, {.pos_weight = pos_weight, .reduction = reduction});
}

Tensor detail::cross_entropy_probabilities(const Tensor& x, const Tensor& target,
                                           const CrossEntropyOptions& options) {
  constexpr auto kName = "cross_entropy";
  check(is_floating(x.dtype()), kName, ": x is ", x.dtype(), "; convert it to a floating dtype");
  check(options.ignore_index < 0, kName, ": ignore_index ", options.ignore_index,
        " has no meaning for class probabilities");
  if (any_half(x, target, options.weight)) {
    return in_float32(kName, AutocastRule::float32, {x, target, options.weight},
                      [=](const auto& in) {
                        CrossEntropyOptions wide = options;
                        wide.weight = in[2];
                        return cross_entropy_probabilities(in[0], in[1], wide);
                      });
  }
  const int axis = x.ndim() == 1 ? 0 : 1;
  const int64_t classes = x.size(axis);
  Tensor share = target;
  if (options.label_smoothing > 0.0) {
    share = target * (1.0 - options.label_smoothing) +
            options.label_smoothing / static_cast<double>(classes);
  }
  Tensor rows = log_softmax(x, axis) * share;
  if (options.weight.defined()) {
    check(options.weight.shape() == Shape{classes}, kName, ": weight ", options.weight.shape(),
          " does not fit ", classes, " classes");
    Shape shape = Shape::filled(x.ndim(), 1);
    shape[axis] = classes;
    rows = rows * reshape(options.weight, shape);
  }
  // The mean is over rows, whatever they weigh.
  const Tensor loss = -sum(rows, {axis});
  return reduce_loss(loss, options.reduction);
}

}  // namespace hero

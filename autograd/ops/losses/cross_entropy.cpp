// Losses of class logits with the numbers of the right classes. N rows, C classes on dim 1.
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/composed.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/losses/loss.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/indexing.h>
#include <hero/core/functions/map.h>

namespace hero {

namespace {

namespace k = core::kernels;
using detail::Targets, detail::any_half, detail::in_float32;

// Outputs: log p at the target [N, 1, ...] and all log p [N, C, ...]. The derivative of the first
// alone is written without a dense gradient of the second.
struct PickLogProbability : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
  static constexpr unsigned kSaveInputs = 0b10;
  static constexpr unsigned kSaveOutputs = 0b10;
  const char* name() const override { return "cross_entropy"; }
  std::vector<Array> forward(const Array& x, const Array& classes) {
    const Array log_p = x.empty_like();
    const Array picked = Array::empty(classes.shape(), x.dtype(), x.device());
    core::Backend& device = core::backend(x.device());
    device.run(core::call::Softmax{core::SoftmaxKind::log_softmax, x, 1, log_p});
    device.run(core::call::Gather{log_p, 1, classes, picked});
    return {picked, log_p};
  }
  Grads backward(const Grads& grads) override {
    const Tensor classes = input(1), log_p = output(1);
    if (!grad_enabled() && !grads[1].defined()) {
      // g (onehot - p)
      const Array out = core::map<k::Exp>(log_p.array());
      core::map_into<k::Mul>(out, out, core::map<k::Neg>(grads[0].array()));
      core::backend(out.device())
          .run(core::call::Scatter{core::ScatterMode::add, grads[0].array(), 1, classes.array(),
                                   out});
      return {Tensor(out), Tensor()};
    }
    Tensor g = grads[1].defined() ? grads[1] : zeros_like(log_p);
    if (grads[0].defined()) g = scatter_add(g, 1, classes, grads[0]);
    return {g - exp(log_p) * sum(g, {1}, true), Tensor()};
  }
};

// log p at the target [N] of rows x [N, C]; p itself is made in backward and never stored.
// `wide`: halves give float32.
struct LogLikelihood : Op {
  static constexpr unsigned kSaveInputs = 0b11;
  bool wide;
  AutocastRule kAutocast;  // where halves give float32, none are cast
  explicit LogLikelihood(bool w)
      : wide(w), kAutocast(w ? AutocastRule::fallthrough : AutocastRule::float32) {}
  const char* name() const override { return wide ? "log_likelihood" : "cross_entropy"; }
  Array forward(const Array& x_in, const Array& classes) {
    const Array x = detail::fused_operand(x_in);
    const Array out =
        Array::empty(classes.shape(), detail::statistics_dtype(x.dtype()), x.device());
    const Array log_sum = Array::empty({x.size(0), 2}, out.dtype(), x.device());
    stash(log_sum, 0);
    core::backend(x.device()).run(core::call::LogLikelihood{x, classes.contiguous(), out, log_sum});
    return wide ? out : out.to(x_in.dtype());
  }
  Grads backward(const Tensor& g) override {
    if (grad_enabled()) {
      const auto composed = [this](const std::vector<Tensor>& in) {
        const Tensor x = wide ? in[0].to(detail::statistics_dtype(in[0].dtype())) : in[0];
        const Tensor picked = gather(log_softmax(x, 1), 1, unsqueeze(in[1], 1));
        return std::vector<Tensor>{squeeze(picked, 1)};
      };
      return detail::composed_backward(*this, {input(0), input(1)}, {g}, composed);
    }
    const Array x = detail::fused_operand(input(0).array());
    const Array g_x = x.empty_like();
    core::backend(x.device())
        .run(core::call::LogLikelihoodBack{g.array().to(stashed(0).dtype()).contiguous(), x,
                                           input(1).array().contiguous(), stashed(0), g_x});
    return {Tensor(g_x), Tensor()};
  }
};

void check_classes(const char* op, const Tensor& x, const Tensor& target) {
  detail::check_class_dtypes(op, x, target);
  Shape expected = x.shape();
  expected.erase(1);
  check(target.shape() == expected, op, ": target ", target.shape(), " does not fit logits ",
        x.shape(), "; it should be ", expected);
}

// Targets of a GPU are counted and checked there; a wrong one is an error as of any index.
Targets targets_there(const char* op, const Tensor& numbers, int64_t classes,
                      int64_t ignore_index) {
  const Tensor counted = numbers != ignore_index;
  const Tensor known = where(counted, numbers, 0);
  const Tensor checked(core::checked_index(op, known.array(), classes));
  return {checked, counted, 0, sum(counted)};
}

// The weight of each row's class [N, ...].
Tensor row_weights(const Tensor& weight, const Targets& targets, const Shape& rows) {
  return reshape(index_select(weight, 0, flatten(targets.classes)), rows);
}

Tensor without_ignored(const Tensor& rows, const Targets& targets) {
  return targets.counted.defined() ? where(targets.counted, rows, 0) : rows;
}

Tensor reduce_rows(const Tensor& loss, const Tensor& weights, const Targets& targets,
                   Reduction reduction) {
  if (reduction == Reduction::none) return loss;
  const Tensor total = sum(loss);
  if (reduction == Reduction::sum) return total;
  if (!weights.defined()) return detail::mean_of_counted(total, targets);
  return total / sum(without_ignored(weights, targets));
}

void check_weight(const char* op, const Tensor& weight, const Tensor& x) {
  if (!weight.defined()) return;
  check(weight.shape() == Shape{x.size(1)}, op, ": weight ", weight.shape(), " does not fit ",
        x.size(1), " classes");
}

}  // namespace

void detail::check_class_dtypes(const char* op, const Tensor& x, const Tensor& target) {
  check(is_floating(x.dtype()), op, ": x is ", x.dtype(), "; convert it to a floating dtype");
  check(target.dtype() == kInt64 || target.dtype() == kInt32 || target.dtype() == kUInt8, op,
        ": target is ", target.dtype(), "; it holds class numbers, int64");
}

Targets detail::read_targets(const char* op, int64_t classes, const Tensor& target,
                             int64_t ignore_index) {
  const Tensor numbers = target.detach().to(kInt64);
  if (core::is_accelerator(target.device())) {
    return targets_there(op, numbers, classes, ignore_index);
  }
  Targets result{numbers, Tensor(), numbers.numel()};
  if (core::has_values(target.device())) {
    const Array host = numbers.array().to(kCpu).contiguous();
    const int64_t* value = host.numel() > 0 ? host.data<int64_t>() : nullptr;
    for (int64_t i = 0; i < host.numel(); ++i) {
      if (value[i] == ignore_index) {
        --result.count;
        continue;
      }
      check(value[i] >= 0 && value[i] < classes, op, ": target ", value[i], " at position ", i,
            " is outside [0, ", classes, ") and is not ignore_index ", ignore_index);
    }
  }
  if (result.count < numbers.numel()) {
    result.counted = numbers != ignore_index;
    result.classes = where(result.counted, numbers, 0);
  }
  return result;
}

Tensor detail::mean_of_counted(const Tensor& total, const Targets& targets) {
  if (!targets.count_there.defined()) return total / targets.count;
  // In float32, which halves cannot count in.
  const DType wide = promote(total.dtype(), kFloat32);
  return to(to(total, wide) / to(targets.count_there, wide), total.dtype());
}

namespace {

// The loss of class numbers, whose classes are dimension 1 of x. `half`: it is rounded to halves at
// its end.
Tensor loss_of_classes(const Tensor& x, const Tensor& target, const CrossEntropyOptions& options,
                       bool in_float32, bool half) {
  const double smoothing = options.label_smoothing;
  const Targets targets =
      detail::read_targets("cross_entropy", x.size(1), target, options.ignore_index);
  std::vector<Tensor> outputs;
  Tensor loss;
  if (x.ndim() == 2 && smoothing == 0.0) {
    loss = -record(LogLikelihood(in_float32), x, targets.classes);
  } else {
    outputs = record_multi(PickLogProbability{}, x, unsqueeze(targets.classes, 1));
    loss = -squeeze(outputs[0], 1);
  }
  Tensor weights;
  if (options.weight.defined()) {
    weights = row_weights(detail::widened(options.weight), targets, target.shape());
    loss = loss * weights;
  }
  if (smoothing > 0.0) {
    const int64_t classes = x.size(1);
    Tensor all = outputs[1];
    if (options.weight.defined()) {
      Shape shape = Shape::filled(x.ndim(), 1);
      shape[1] = classes;
      all = all * reshape(options.weight, shape);
    }
    const double share = smoothing / static_cast<double>(classes);
    loss = loss * (1.0 - smoothing) - sum(all, {1}) * share;
  }
  loss = reduce_rows(without_ignored(loss, targets), weights, targets, options.reduction);
  if (!half) return loss;
  // The rows of halves were float32, and so were their sum and mean.
  return loss.to(weights.defined() ? promote(x.dtype(), options.weight.dtype()) : x.dtype());
}

}  // namespace

Tensor cross_entropy(const Tensor& x, const Tensor& target, const CrossEntropyOptions& options) {
  detail::check_defined("cross_entropy", {{"x", x}, {"target", target}});
  // Under autocast the loss of halves is float32, without a copy of them where kernels take halves.
  const bool takes_halves = core::kernel_traits(x.device()).takes_halves;
  const bool wide = autocast_enabled() && takes_halves && x.ndim() == 2 && is_floating(x.dtype()) &&
                    !is_floating(target.dtype()) && options.label_smoothing == 0.0;
  if (!wide) {
    const AutocastInputs in(AutocastRule::float32, x);
    if (in.changed()) return cross_entropy(in[0], target, options);
  }
  constexpr auto kName = "cross_entropy";
  check(x.ndim() > 0, kName, ": x needs a dimension of classes: got a scalar");
  const double smoothing = options.label_smoothing;
  check(smoothing >= 0.0 && smoothing <= 1.0, kName, ": label_smoothing ", smoothing,
        " is outside [0, 1]");
  if (is_floating(target.dtype()) && target.shape() == x.shape()) {
    return detail::cross_entropy_probabilities(x, target, options);
  }
  if (x.ndim() == 1) {
    check(target.ndim() == 0, kName, ": target ", target.shape(), " does not fit logits ",
          x.shape(), "; it should be []");
    const Tensor loss = cross_entropy(unsqueeze(x, 0), unsqueeze(target, 0), options);
    return options.reduction == Reduction::none ? squeeze(loss, 0) : loss;
  }
  check_classes(kName, x, target);
  check_weight(kName, options.weight, x);
  const bool half = !wide && any_half(x, options.weight);
  const bool fused = x.ndim() == 2 && smoothing == 0.0;
  if (half && !fused) {
    return in_float32(kName, AutocastRule::float32, {x, target, options.weight},
                      [=](const auto& in) {
                        CrossEntropyOptions plain = options;
                        plain.weight = in[2];
                        return cross_entropy(in[0], in[1], plain);
                      });
  }
  return loss_of_classes(x, target, options, wide || half, half);
}

Tensor nll_loss(const Tensor& log_p, const Tensor& target, const NllOptions& options) {
  detail::check_defined("nll_loss", {{"log_probabilities", log_p}, {"target", target}});
  if (const AutocastInputs in(AutocastRule::float32, log_p); in.changed()) {
    return nll_loss(in[0], target, options);
  }
  constexpr auto kName = "nll_loss";
  check(log_p.ndim() > 0, kName, ": x needs a dimension of classes: got a scalar");
  if (log_p.ndim() == 1) {
    check(target.ndim() == 0, kName, ": target ", target.shape(), " does not fit ", log_p.shape(),
          "; it should be []");
    const Tensor loss = nll_loss(unsqueeze(log_p, 0), unsqueeze(target, 0), options);
    return options.reduction == Reduction::none ? squeeze(loss, 0) : loss;
  }
  check_classes(kName, log_p, target);
  check_weight(kName, options.weight, log_p);
  if (any_half(log_p, options.weight)) {
    return in_float32(kName, AutocastRule::float32, {log_p, target, options.weight},
                      [=](const auto& in) {
                        NllOptions wide = options;
                        wide.weight = in[2];
                        return nll_loss(in[0], in[1], wide);
                      });
  }
  const Targets targets = detail::read_targets(kName, log_p.size(1), target, options.ignore_index);
  Tensor loss = -squeeze(gather(log_p, 1, unsqueeze(targets.classes, 1)), 1);
  Tensor weights;
  if (options.weight.defined()) {
    weights = row_weights(options.weight, targets, target.shape());
    loss = loss * weights;
  }
  return reduce_rows(without_ignored(loss, targets), weights, targets, options.reduction);
}

}  // namespace hero

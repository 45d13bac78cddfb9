// The cross entropy of a linear layer's logits, which are never in memory as a whole. N rows, K
// inputs, C classes.
// [note: gradients in forward] The loss is a sum over rows, so the gradient of a row's logits is
// known as soon as the logits are: softmax minus the target, up to one factor that is the same for
// all rows. So each chunk's logits are replaced by their gradient in place, from which the chunk's
// share of the gradients of x, weight and bias is computed before the next chunk overwrites it. The
// factor is applied only in backward: with it, a mean over many rows would leave the range of half
// precision.
#include <algorithm>

#include <hero/autograd/graph/checkpoint.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/detail/composed.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/losses/loss.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/half_products.h>
#include <hero/core/functions/map.h>

namespace hero {

namespace {

namespace k = core::kernels;

constexpr int64_t kChunkLogits = 1 << 24, kChunkRows = 1024, kLargeChunkLogits = 1 << 30;
// Where nothing is joined: chunks of so many rows take a thirtieth longer than those of 1024, with
// a weight of [49152, 576] in bfloat16.
constexpr int64_t kLoneChunkRows = 256;

// Rows whose logits exist at one time; `joins` says whether something of each chunk is joined.
// Where large calls are best they are many: the fewer the chunks, the less often their shares of
// the gradients of weight and bias are written and joined. There all are equally long.
int64_t rows_of_chunk(const Tensor& x, int64_t classes, bool joins) {
  const bool large = core::kernel_traits(x.device()).wants_large_calls;
  const int64_t logits = large ? kLargeChunkLogits : kChunkLogits;
  const int64_t least = large || joins ? kChunkRows : kLoneChunkRows;
  const int64_t rows = std::max(least, logits / std::max<int64_t>(1, classes));
  if (!large || x.size(0) <= rows) return rows;
  const int64_t chunks = (x.size(0) + rows - 1) / rows;
  return (x.size(0) + chunks - 1) / chunks;
}

// Inputs: x [N, K], weight [C, K], classes int64 [N] and, as `has` says, counted bool [N] and bias
// [C]. The output is the sum over rows, in float32 for halves.
struct LinearCrossEntropy : Op {
  static constexpr AutocastRule kAutocast = AutocastRule::lower_precision;
  static constexpr unsigned kSaveInputs = 0b11111;
  struct Has {
    bool counted, bias;
  } has;
  int64_t ignore_index;
  double smoothing;
  int64_t chunk;
  LinearCrossEntropy(Has h, const LinearCrossEntropyOptions& options, int64_t rows)
      : has(h),
        ignore_index(options.ignore_index),
        smoothing(options.label_smoothing),
        chunk(rows) {}
  const char* name() const override { return "linear_cross_entropy"; }

  // What chunks read and write. Where the CPU multiplies bfloat16, x and weight stay it; logits are
  // float32 then, as sums are, and are rounded only as gradients, when they enter products.
  struct Rows {
    Array x, weight, bias;
    DType sums;                     // of logits and gradients
    Array classes = {}, sign = {};  // [N]; sign: -1 where the row counts, else 0
    Array likelihood = {};          // [N]
    Array log_sum = {};             // [N, 2], see core::call::LogLikelihood
    Array logit_sum = {};           // [N, 1], with label smoothing
  };
  struct Gradients {
    Array x, weight, bias;  // those wanted; the last two are joined over chunks
  };

  Array forward(std::span<const Array> inputs) {
    Rows rows = operands(inputs);
    const int64_t N = rows.x.size(0);
    const DType wide = detail::statistics_dtype(rows.x.dtype());
    rows.classes = inputs[2].contiguous();
    rows.sign = Array::full({N}, -1.0, wide, rows.x.device());
    if (has.counted) core::map_into<k::Where>(rows.sign, inputs[3], rows.sign, Scalar(0.0));
    rows.likelihood = rows.sign.empty_like();
    rows.log_sum = Array::empty({N, 2}, wide, rows.x.device());
    rows.logit_sum = smoothing > 0.0 ? rows.sign.empty_like().reshape({N, 1}) : Array();
    Gradients gradients;
    if (wants(0)) gradients.x = room(rows, rows.x.shape());
    const Array logits = room(rows, {std::min(chunk, N), rows.weight.size(0)});
    for (int64_t at = 0; at < N; at += chunk) {
      const int64_t end = std::min(at + chunk, N);
      const Array part = logits.slice(0, 0, end - at);
      multiply(rows, at, end, part);
      if (input_count() > 0) {
        differentiate(rows, at, end, part, gradients);
      } else {
        evaluate(rows, at, end, part);
      }
    }
    keep(rows, gradients);
    Tensor loss = Tensor(rows.likelihood) * (smoothing - 1.0);
    if (smoothing > 0.0) {
      const double classes = static_cast<double>(rows.weight.size(0));
      const std::vector<Tensor> terms = unbind(Tensor(rows.log_sum), 1);
      const Tensor all =
          (Tensor(rows.logit_sum.reshape({N})) - terms[0] * classes) - terms[1] * classes;
      loss = loss - all * (smoothing / classes);
    }
    if (has.counted) loss = where(Tensor(inputs[3]), loss, 0);
    return sum(loss).array();
  }

  Rows operands(std::span<const Array> inputs) const {
    const Array &x = inputs[0], &weight = inputs[1];
    const Array bias = has.bias ? detail::fused_operand(inputs.back()) : Array();
    const DType sums = detail::fused_dtype(x.dtype(), x.device());
    if (!core::has_native_products(x.dtype(), x.device())) {
      return {detail::fused_operand(x), detail::fused_operand(weight), bias, sums};
    }
    return {x.contiguous(), weight.contiguous(), bias, sums};
  }
  static Array room(const Rows& rows, const Shape& shape) {
    return Array::empty(shape, rows.sums, rows.x.device());
  }

  bool wants(int i) const { return input_count() > 0 && needs(i); }
  bool wants_bias() const { return has.bias && wants(input_count() - 1); }

  void multiply(const Rows& rows, int64_t at, int64_t end, const Array& logits) const {
    core::backend(logits.device())
        .run(core::call::Linear{core::Activation::none, rows.x.slice(0, at, end), rows.weight,
                                has.bias ? &rows.bias : nullptr, logits, nullptr});
  }

  void evaluate(const Rows& rows, int64_t at, int64_t end, const Array& logits) const {
    core::Backend& device = core::backend(logits.device());
    device.run(core::call::LogLikelihood{logits, rows.classes.slice(0, at, end),
                                         rows.likelihood.slice(0, at, end),
                                         rows.log_sum.slice(0, at, end)});
    if (smoothing > 0.0) {
      device.run(core::call::Reduce{core::ReduceKind::sum, logits, nullptr,
                                    rows.logit_sum.slice(0, at, end)});
    }
  }

  // The logits become their gradients.
  void differentiate(const Rows& rows, int64_t at, int64_t end, const Array& logits,
                     Gradients& gradients) const {
    core::Backend& device = core::backend(logits.device());
    const Array sign = rows.sign.slice(0, at, end), classes = rows.classes.slice(0, at, end);
    const Array log_sum = rows.log_sum.slice(0, at, end);
    if (smoothing > 0.0) {
      evaluate(rows, at, end, logits);  // whose sums are of the logits
      device.run(core::call::LogLikelihoodBack{sign, logits, classes, log_sum, logits});
    } else {
      device.run(core::call::LogLikelihoodInPlace{sign, logits, classes,
                                                  rows.likelihood.slice(0, at, end), log_sum});
    }
    const int64_t n = end - at;
    if (smoothing > 0.0) {
      const Array column = sign.reshape({n, 1});
      const double share = smoothing / static_cast<double>(logits.size(1));
      core::map_into<k::Add>(logits, logits, core::map<k::Mul>(column, Scalar(share)));
      device.run(core::call::Scatter{
          core::ScatterMode::add, core::map<k::Mul>(column, Scalar(-smoothing)).to(logits.dtype()),
          1, classes.reshape({n, 1}), logits});
    }
    const Array factor = logits.to(rows.x.dtype());
    const auto product = [&](const Array& a, const Array& b, const Array& to) {
      device.run(core::call::Matmul{a.unsqueeze(0), b.unsqueeze(0), to.unsqueeze(0)});
    };
    if (wants(0)) product(factor, rows.weight, gradients.x.slice(0, at, end));
    if (wants(1)) {
      const Array part = room(rows, rows.weight.shape());
      product(factor.t(), rows.x.slice(0, at, end), part);
      join(gradients.weight, part, rows);
    }
    if (wants_bias()) {
      const Array sums = Array::empty({1, logits.size(1)}, sign.dtype(), logits.device());
      device.run(core::call::Reduce{core::ReduceKind::sum, logits, nullptr, sums});
      join(gradients.bias, sums.reshape({logits.size(1)}), rows);
    }
  }

  // Sums over several chunks of halves are float32.
  void join(Array& total, const Array& part, const Rows& rows) const {
    if (total.defined()) {
      core::map_into<k::Add>(total, total, part);
    } else {
      total = rows.x.size(0) > chunk ? part.to(rows.sign.dtype()) : part;
    }
  }

  void keep(const Rows& rows, Gradients& gradients) {
    if (rows.x.size(0) == 0) {  // no chunk came
      gradients.weight = Array::zeros(rows.weight.shape(), rows.sums, rows.x.device());
      if (has.bias) gradients.bias = Array::zeros(rows.bias.shape(), rows.sums, rows.x.device());
    }
    if (wants(0)) stash(gradients.x, 0);
    if (wants(1)) stash(gradients.weight, 1);
    if (wants_bias()) stash(gradients.bias, input_count() - 1);
  }

  Grads backward(const Tensor& g) override {
    if (grad_enabled()) {
      std::vector<Tensor> inputs;
      for (int i = 0; i < input_count(); ++i) inputs.push_back(input(i));
      return detail::composed_backward(*this, inputs, {g}, [this](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{composed(in)};
      });
    }
    Grads grads;
    grads.resize(input_count());
    for (int i = 0; i < input_count(); ++i) {
      if (!needs(i)) continue;
      const detail::GradSpec& spec = input_spec(i);
      const Array scaled = Array::empty(spec.shape, spec.dtype, spec.device);
      core::map_into<k::Mul>(scaled, stashed(i), g.array());
      grads[i] = Tensor(scaled);
    }
    return grads;
  }

  Tensor composed(const std::vector<Tensor>& in) const {
    const Tensor logits = linear(in[0], in[1], has.bias ? in.back() : Tensor());
    const Tensor target = has.counted ? where(in[3], in[2], ignore_index) : in[2];
    const Tensor wide = logits.to(detail::statistics_dtype(logits.dtype()));
    return cross_entropy(
        wide, target,
        {.reduction = Reduction::sum, .ignore_index = ignore_index, .label_smoothing = smoothing});
  }
};

void check_arguments(const char* op, const Tensor& x, const Tensor& weight, const Tensor& target,
                     const LinearCrossEntropyOptions& options) {
  const bool probable = is_floating(target.dtype());
  if (!probable) detail::check_class_dtypes(op, x, target);
  check(is_floating(x.dtype()), op, ": x is ", x.dtype(), "; it must be floating");
  check(weight.ndim() == 2 && x.ndim() == 2 && x.size(1) == weight.size(1), op, ": x ", x.shape(),
        " and weight ", weight.shape(), " do not fit; they should be [N, K] and [C, K]");
  check(x.dtype() == weight.dtype(), op, ": dtypes of x and weight: ", x.dtype(), " and ",
        weight.dtype(), "; both must be the same, convert with to()");
  const Shape expected = probable ? Shape{x.size(0), weight.size(0)} : Shape{x.size(0)};
  check(target.shape() == expected, op, ": target ", target.shape(), " does not fit rows ",
        x.shape(), "; it should be ", expected);
  check(!options.weight.defined() || options.weight.shape() == Shape{weight.size(0)}, op,
        ": weights of classes should be [", weight.size(0), "]");
  const Tensor& bias = options.linear_bias;
  check(!bias.defined() || (bias.shape() == Shape{weight.size(0)} && bias.dtype() == x.dtype()), op,
        ": linear_bias should be ", x.dtype(), " [", weight.size(0), "]");
  check(options.reduction != Reduction::none, op,
        ": Reduction::none would need the gradients of each row; use cross_entropy(linear(x, "
        "weight), target)");
  check(options.label_smoothing >= 0.0 && options.label_smoothing <= 1.0, op, ": label_smoothing ",
        options.label_smoothing, " is outside [0, 1]");
  check(options.batch_chunk_size.value_or(1) > 0, op, ": batch_chunk_size must be positive: got ",
        options.batch_chunk_size.value_or(1));
}

// The sum over rows, through which no gradient goes where no row counts: backward of a mean divides
// by their number, and what was made in forward, 0, times that infinite factor would be NaN.
Tensor without_gradient_of_none(const Tensor& loss, const detail::Targets& targets) {
  if (targets.count_there.defined()) return masked_fill(loss, targets.count_there == 0, 0.0);
  if (targets.count > 0) return loss;
  return masked_fill(loss, ones({}, {.dtype = kBool, .device = loss.device()}), 0.0);
}

// False of a parameter that lies in one piece with one of several ranks, as a pipeline's do.
bool is_cut(const Partition& part) {
  return part.boxes.size() > 1 || (part.boxes.size() == 1 && part.boxes[0].extent != part.whole);
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target,
                            const LinearCrossEntropyOptions& options) {
  detail::check_defined("linear_cross_entropy", {{"x", x}, {"weight", weight}, {"target", target}});
  constexpr auto kName = "linear_cross_entropy";
  if (const Partition* part = partition(weight); part != nullptr && is_cut(*part)) {
    return detail::vocabulary_cross_entropy(x, weight, *part, target, options);
  }
  if (const AutocastInputs in(AutocastRule::lower_precision, x, weight, options.linear_bias);
      in.changed()) {
    LinearCrossEntropyOptions cast = options;
    cast.linear_bias = in[2];
    return linear_cross_entropy(in[0], in[1], target, cast);
  }
  const bool more = is_floating(target.dtype()) || options.weight.defined();
  if (x.ndim() == 1 && target.ndim() == (is_floating(target.dtype()) ? 1 : 0)) {
    return linear_cross_entropy(unsqueeze(x, 0), weight, unsqueeze(target, 0), options);
  }
  check_arguments(kName, x, weight, target, options);
  const auto learns = [](const Tensor& y) { return y.defined() && y.requires_grad(); };
  const bool joins = more || (grad_enabled() && (learns(weight) || learns(options.linear_bias)));
  const int64_t rows = options.batch_chunk_size.value_or(rows_of_chunk(x, weight.size(0), joins));
  if (more) {
    const Tensor loss = detail::linear_cross_entropy_parts(x, weight, target, options, rows);
    return autocast_enabled() ? loss : loss.to(x.dtype());
  }
  const detail::Targets targets =
      detail::read_targets(kName, weight.size(0), target, options.ignore_index);
  const LinearCrossEntropy::Has has{targets.counted.defined(), options.linear_bias.defined()};
  std::vector<Tensor> inputs{x, weight, targets.classes};
  if (has.counted) inputs.push_back(targets.counted);
  if (has.bias) inputs.push_back(options.linear_bias);
  Tensor loss = without_gradient_of_none(
      record_list(LinearCrossEntropy(has, options, rows), inputs), targets);
  if (options.reduction == Reduction::mean) loss = detail::mean_of_counted(loss, targets);
  return autocast_enabled() ? loss : loss.to(x.dtype());
}

// linear_cross_entropy where a row's target is more than a class: its logits are computed again in
// backward, chunk by chunk.

namespace detail {

namespace {

// The sum of the weights of all targets that count.
Tensor weight_of(const Tensor& target, const Tensor& weight, int64_t ignore_index) {
  const Targets targets =
      read_targets("linear_cross_entropy", weight.size(0), target, ignore_index);
  const Tensor each = index_select(weight.detach(), 0, targets.classes);
  return sum(targets.counted.defined() ? where(targets.counted, each, 0) : each);
}

}  // namespace

Tensor linear_cross_entropy_parts(const Tensor& x, const Tensor& weight, const Tensor& target,
                                  const LinearCrossEntropyOptions& options, int64_t rows) {
  const int64_t N = x.size(0);
  const bool probable = is_floating(target.dtype());
  const DType wide = statistics_dtype(x.dtype());
  const CrossEntropyOptions each{
      .weight = options.weight.defined() ? options.weight.to(wide) : Tensor(),
      .reduction = Reduction::sum,
      .ignore_index = options.ignore_index,
      .label_smoothing = options.label_smoothing};
  const auto part = [=, bias = options.linear_bias](const Tensor& some, const Tensor& to) {
    const Tensor logits = linear(some, weight, bias).to(wide);
    return cross_entropy(logits, probable ? to.to(wide) : to, each);
  };
  Tensor loss;
  for (int64_t at = 0; at == 0 || at < N; at += rows) {
    const int64_t end = std::min(at + rows, N);
    const Tensor some = slice(x, 0, at, end), to = slice(target, 0, at, end);
    const Tensor sum = N > rows ? checkpoint(part, some, to) : part(some, to);
    loss = loss.defined() ? loss + sum : sum;
  }
  if (options.reduction == Reduction::sum) return loss;
  if (probable) return loss / static_cast<double>(N);
  return loss / weight_of(target, each.weight, options.ignore_index);
}

}  // namespace detail

}  // namespace hero

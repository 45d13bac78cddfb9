// Batch norm: normalises the channels of a batch, by the batch's statistics or by given ones.
#include <algorithm>

#include <hero/autograd/graph/checkpoint.h>
#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/detail/composed.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/nn/norm.h>
#include <hero/core/array/promotion.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>

namespace hero {

namespace {

using detail::per_channel;

// Mean and biased variance of channels, [C] each; undefined: those of the batch.
struct ChannelStatistics {
  Tensor mean, variance;
};

// The definition: x [N, C, ..] by its own statistics or by given ones.
Tensor composed_channels(const Tensor& x, const ChannelStatistics& given, const Tensor& weight,
                         const Tensor& bias, double eps) {
  if (!given.mean.defined()) {
    Dims dims{0};
    for (int i = 2; i < x.ndim(); ++i) dims.push_back(i);
    return detail::scale_and_shift(detail::standardize(x, dims, eps), per_channel(weight, x.ndim()),
                                   per_channel(bias, x.ndim()));
  }
  Tensor scale = rsqrt(given.variance + eps);
  if (weight.defined()) scale = scale * weight;
  return detail::scale_and_shift(x - per_channel(given.mean, x.ndim()),
                                 per_channel(scale, x.ndim()), per_channel(bias, x.ndim()));
}

// Whether kernels read and write these halves as they are, beside float32 parameters.
bool keeps_halves(const Tensor& x) {
  return x.dtype() == kBFloat16 && core::kernel_traits(x.device()).normalizes_bfloat16;
}

// Inputs: x [N, C, ..] and, as `has` says, weight and bias [C], of one dtype, or of float32 beside
// bfloat16 that keeps_halves(). Outputs: the norm, and the mean and biased variance that it was
// made with, of the parameters' dtype, which have no derivative.
struct NormalizeChannels : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::fallthrough;
  static constexpr unsigned kSaveInputs = 0b111;
  struct Has {
    bool weight, bias;
  } has;
  double eps;
  bool fixed;
  Array mean, variance;  // where fixed, until forward has run
  NormalizeChannels(Has h, double e, const ChannelStatistics& given)
      : has(h), eps(e), fixed(given.mean.defined()) {
    if (!fixed) return;
    mean = given.mean.array();
    variance = given.variance.array();
  }
  const char* name() const override { return "batch_norm"; }

  std::vector<Array> forward(std::span<const Array> inputs) {
    const Array x = channels(inputs[0]);
    const Array weight = has.weight ? inputs[1].contiguous() : Array();
    const Array bias = has.bias ? inputs.back().contiguous() : Array();
    const DType dtype = statistics_dtype(x);
    // Copies: running statistics go on before backward comes.
    const Array center =
        fixed ? mean.to(dtype).clone() : Array::empty({x.size(1)}, dtype, x.device());
    const Array spread = fixed ? variance.to(dtype).clone() : center.empty_like();
    mean = variance = Array();
    stash(center, 0);
    stash(spread, 1);
    const Array out = x.empty_like();
    core::backend(x.device())
        .run(core::call::NormalizeChannels{
            {has.weight ? &weight : nullptr, has.bias ? &bias : nullptr, eps, fixed},
            x,
            out,
            center,
            spread});
    return {out.reshape(inputs[0].shape()), center, spread};
  }

  Grads backward(const Grads& grads) override {
    if (!grads[0].defined()) return {};
    return grad_enabled() ? recorded(grads[0]) : in_one_pass(grads[0]);
  }

  Grads in_one_pass(const Tensor& g) {
    const Array x = channels(input(0).array());
    const Array weight = has.weight ? input(1).array().contiguous() : Array();
    const int at_bias = has.weight ? 2 : 1;
    const auto room = [&](bool wanted, const Shape& shape, DType dtype) {
      return wanted ? Array::empty(shape, dtype, x.device()) : Array();
    };
    const DType dtype = statistics_dtype(x);
    const Array g_x = room(needs(0), x.shape(), x.dtype());
    const Array g_weight = room(has.weight && needs(1), {x.size(1)}, dtype);
    const Array g_bias = room(has.bias && needs(at_bias), {x.size(1)}, dtype);
    const auto wanted = [](const Array& array) { return array.defined() ? &array : nullptr; };
    core::backend(x.device())
        .run(core::call::NormalizeChannelsBack{{wanted(weight), nullptr, eps, fixed},
                                               channels(g.array().to(x.dtype())),
                                               x,
                                               stashed(0),
                                               stashed(1),
                                               wanted(g_x),
                                               wanted(g_weight),
                                               wanted(g_bias)});
    Grads found{g_x.defined() ? Tensor(g_x.reshape(input_shape(0))) : Tensor()};
    if (has.weight) found.push_back(g_weight.defined() ? Tensor(g_weight) : Tensor());
    if (has.bias) found.push_back(g_bias.defined() ? Tensor(g_bias) : Tensor());
    return found;
  }

  Grads recorded(const Tensor& g) {
    std::vector<Tensor> inputs;
    for (int i = 0; i < input_count(); ++i) inputs.push_back(input(i));
    ChannelStatistics given;
    if (fixed) given = {Tensor(stashed(0)), Tensor(stashed(1))};
    return detail::composed_backward(*this, inputs, {g}, [&](const std::vector<Tensor>& in) {
      const Tensor y =
          composed_channels(detail::widened(in[0]), given, has.weight ? in[1] : Tensor(),
                            has.bias ? in.back() : Tensor(), eps);
      return std::vector<Tensor>{y.to(in[0].dtype())};
    });
  }

  static DType statistics_dtype(const Array& x) {
    return hero::is_half(x.dtype()) ? kFloat32 : x.dtype();
  }
  // x [N, C, ..] as [N, C, L].
  static Array channels(const Array& x) {
    int64_t length = 1;
    for (int i = 2; i < x.ndim(); ++i) length *= x.size(i);
    return x.contiguous().reshape({x.size(0), x.size(1), length});
  }
};

// {the norm, mean, variance} of x and parameters of any floating dtypes but halves, or of x that
// keeps_halves() and parameters of halves or float32.
std::vector<Tensor> record_channels(const Tensor& x, const ChannelStatistics& given,
                                    const Tensor& weight, const Tensor& bias, double eps) {
  DType mixed = x.dtype();
  for (const Tensor* each : {&weight, &bias, &given.mean, &given.variance}) {
    if (each->defined()) mixed = promote(mixed, each->dtype());
  }
  const bool halves = keeps_halves(x);
  if (halves) mixed = kFloat32;
  std::vector<Tensor> inputs{halves ? x : x.to(mixed)};
  if (weight.defined()) inputs.push_back(weight.to(mixed));
  if (bias.defined()) inputs.push_back(bias.to(mixed));
  const NormalizeChannels::Has has{weight.defined(), bias.defined()};
  return record_multi_list(NormalizeChannels(has, eps, given), inputs);
}

// Whether all is computed in float32, with x as a copy.
bool needs_float32(const Tensor& x, const std::vector<Tensor>& others) {
  const auto is = [&](DType dtype) {
    return std::any_of(others.begin(), others.end(), [=](const Tensor& other) {
      return other.defined() && other.dtype() == dtype;
    });
  };
  if (keeps_halves(x)) return is(kFloat64);
  return detail::is_half(x) || is(kBFloat16) || is(kFloat16);
}

Tensor batch_norm_training(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                           const BatchNormOptions& options) {
  const int64_t count = x.size(1) > 0 ? x.numel() / x.size(1) : 0;
  // An empty batch has no statistics and leaves the running ones.
  if (x.numel() == 0) {
    return detail::scale_and_shift(x, per_channel(options.weight, x.ndim()),
                                   per_channel(options.bias, x.ndim()))
        .to(x.dtype());
  }
  check(count > 1, "batch_norm: training needs more than one value per channel: ", x.shape(),
        "; use a larger batch or training = false");
  const std::vector<Tensor> outputs =
      needs_float32(x, {options.weight, options.bias})
          ? detail::in_float32_multi("batch_norm", AutocastRule::fallthrough,
                                     {x, options.weight, options.bias},
                                     [eps = options.eps](const auto& in) {
                                       return record_channels(in[0], {}, in[1], in[2], eps);
                                     })
          : record_channels(x, {}, options.weight, options.bias, options.eps);
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  detail::update_running(running_mean, outputs[1].array(), options.momentum, 1.0);
  detail::update_running(running_var, outputs[2].array(), options.momentum, unbiased);
  return outputs[0].to(x.dtype());
}

Tensor batch_norm_evaluation(const Tensor& x, const ChannelStatistics& running,
                             const BatchNormOptions& options) {
  // Statistics that somebody differentiates are no constants.
  const bool constant =
      !grad_enabled() || (!running.mean.requires_grad() && !running.variance.requires_grad());
  if (needs_float32(x, {running.mean, running.variance, options.weight, options.bias}) ||
      (!constant && detail::is_half(x))) {
    return detail::in_float32("batch_norm", AutocastRule::fallthrough,
                              {x, running.mean, running.variance, options.weight, options.bias},
                              [eps = options.eps](const auto& in) {
                                return batch_norm(in[0], in[1], in[2],
                                                  {.weight = in[3], .bias = in[4], .eps = eps});
                              })
        .to(x.dtype());
  }
  return (constant ? record_channels(x, running, options.weight, options.bias, options.eps)[0]
                   : composed_channels(x, running, options.weight, options.bias, options.eps))
      .to(x.dtype());
}

}  // namespace

void detail::update_running(const Tensor& running, const Array& batch, double momentum,
                            double factor) {
  if (!running.defined() || recomputing()) return;
  const NoGrad no_grad;
  const Tensor value = Tensor(batch.reshape(running.shape())).to(running.dtype());
  // Threads that share the statistics update them one after the other.
  const LeafTurn turn(running.impl()->lock);
  running.mul_(1.0 - momentum);
  running.add_(value, momentum * factor);
}

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options) {
  detail::check_defined("batch_norm", {{"x", x}});
  constexpr auto kName = "batch_norm";
  detail::check_floating(kName, x);
  detail::check_eps(kName, options.eps);
  check(x.ndim() >= 2, kName, ": x must be [N, C, ...]: got shape ", x.shape());
  const Shape channels{x.size(1)};
  detail::check_parameter(kName, "running_mean", running_mean, channels);
  detail::check_parameter(kName, "running_var", running_var, channels);
  detail::check_parameter(kName, "weight", options.weight, channels);
  detail::check_parameter(kName, "bias", options.bias, channels);
  if (options.training) return batch_norm_training(x, running_mean, running_var, options);
  check(running_mean.defined() && running_var.defined(), kName,
        ": running_mean and running_var are needed unless training");
  return batch_norm_evaluation(x, {running_mean, running_var}, options);
}

}  // namespace hero

// Normalisation: one operation brings elements to mean 0 and variance 1 over some dimensions, the
// rest is scale and shift.
#include <hero/autograd/autocast.h>
#include <hero/autograd/checkpoint.h>
#include <hero/autograd/nn_ops.h>
#include <hero/autograd/op.h>
#include <hero/autograd/ops/in_float32.h>
#include <hero/autograd/ops/norm.h>
#include <hero/core/backend.h>
#include <hero/core/functions/map.h>

namespace hero {

namespace {

namespace k = core::kernels;
using detail::any_half, detail::in_float32, detail::in_float32_multi;
using detail::check_floating, detail::check_parameter, detail::scale_and_shift, detail::standardize;

Shape with_ones(const Shape& shape, const Dims& dims) {
  Shape result = shape;
  for (int64_t dim : dims) result[static_cast<int>(dim)] = 1;
  return result;
}

// (g - mean_g - y along) scale, in the order of those operations, but a part of the first dimension
// at a time that stays in the cache from one to the next.
Array standardized_gradient(const Array& g, const Array& y, const Array& scale, const Array& mean_g,
                            const Array& along) {
  constexpr int64_t kPart = 1 << 16;  // elements
  const Array result = Array::empty(y.shape(), y.dtype(), y.device());
  const int64_t rows = y.size(0), each = std::max<int64_t>(1, y.numel() / rows);
  const int64_t step = std::max<int64_t>(1, kPart / each);
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t last = std::min(rows, first + step);
    const auto part = [&](const Array& x) { return x.size(0) == 1 ? x : x.slice(0, first, last); };
    const Array out = part(result);
    core::map_into<k::Sub>(out, part(g), part(mean_g));
    core::map_into<k::Addcmul>(out, out, part(y), part(along), -1.0);
    core::map_into<k::Mul>(out, out, part(scale));
  }
  return result;
}

// Outputs: (x - mean) r, r = 1 / sqrt(variance + eps), mean, variance (biased). The last two have
// no derivative: running statistics read them.
struct Standardize : MultiOp {
  static constexpr unsigned kSaveOutputs = 0b11;
  Dims dims;
  double eps;
  Standardize(const Dims& d, double e) : dims(d), eps(e) {}
  const char* name() const override { return "standardize"; }

  std::vector<Array> forward(const Array& x) {
    const Shape shape = with_ones(x.shape(), dims);
    const double share = static_cast<double>(shape.numel()) / static_cast<double>(x.numel());
    // Statistics of halves are kept in float.
    const DType dtype = x.dtype() == kFloat64 ? kFloat64 : kFloat32;
    const Array mean = Array::empty(shape, dtype, x.device());
    const Array variance = mean.empty_like();
    core::Backend& device = core::backend(x.device());
    device.reduce(core::ReduceKind::sum, x, nullptr, mean);
    core::map_into<k::Mul>(mean, mean, share);
    device.reduce(core::ReduceKind::sum_deviation, x, &mean, variance);
    core::map_into<k::Mul>(variance, variance, share);
    const Array scale = core::map<k::Add>(variance, eps);
    core::map_into<k::Rsqrt>(scale, scale);
    const Array y = x.empty_like();
    core::map_into<k::Sub>(y, x, mean);
    core::map_into<k::Mul>(y, y, scale);
    return {y, scale, mean, variance};
  }

  Grads backward(const Grads& grads) override {
    const Tensor y = output(0), scale = output(1);
    const double count = static_cast<double>(y.numel()) / static_cast<double>(scale.numel());
    Tensor result;
    if (grads[0].defined()) {
      const Tensor& g = grads[0];
      const Tensor along_y = sum(g * y, dims, true) * (1.0 / count);
      const bool alike = g.dtype() == y.dtype() && scale.dtype() == y.dtype();
      if (!grad_enabled() && alike && y.numel() > 0 && !grads[1].defined()) {
        return {Tensor(standardized_gradient(g.array(), y.array(), scale.array(),
                                             mean(g, dims, true).array(), along_y.array()))};
      }
      result = (g - mean(g, dims, true) - y * along_y) * scale;
    }
    if (grads[1].defined()) {
      const Tensor of_scale = y * (grads[1] * square(scale) * (-1.0 / count));
      result = result.defined() ? result + of_scale : of_scale;
    }
    return {result};
  }
};

// A parameter [C] as [1, C, 1, ...].
Tensor per_channel(const Tensor& parameter, int ndim) {
  if (!parameter.defined()) return parameter;
  Shape shape = Shape::filled(ndim, 1);
  shape[1] = parameter.numel();
  return reshape(parameter, shape);
}

// running = (1 - momentum) running + momentum batch
void update_running(const Tensor& running, const Array& batch, double momentum, double factor) {
  if (!running.defined() || recomputing()) return;
  const NoGrad no_grad;
  const Tensor value = Tensor(batch.reshape(running.shape())).to(running.dtype());
  // Threads that share the statistics update them one after the other.
  const detail::LeafTurn turn(running.impl()->lock);
  running.mul_(1.0 - momentum);
  running.add_(value, momentum * factor);
}

// {normalised x, mean, variance} of channels.
std::vector<Tensor> normalized_channels(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                        const Dims& dims, double eps) {
  const std::vector<Tensor> outputs = record_multi(Standardize(dims, eps), x);
  return {scale_and_shift(outputs[0], per_channel(weight, x.ndim()), per_channel(bias, x.ndim())),
          outputs[2], outputs[3]};
}

Tensor batch_norm_training(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                           const BatchNormOptions& options) {
  const int64_t count = x.size(1) > 0 ? x.numel() / x.size(1) : 0;
  // An empty batch has no statistics and leaves the running ones.
  if (x.numel() == 0) {
    return scale_and_shift(x, per_channel(options.weight, x.ndim()),
                           per_channel(options.bias, x.ndim()))
        .to(x.dtype());
  }
  check(count > 1, "batch_norm: training needs more than one value a channel: ", x.shape(),
        "; use a larger batch or training = false");
  Dims dims{0};
  for (int i = 2; i < x.ndim(); ++i) dims.push_back(i);
  const std::vector<Tensor> outputs =
      any_half(x, options.weight, options.bias)
          ? in_float32_multi("batch_norm", {x, options.weight, options.bias},
                             [=, eps = options.eps](const auto& in) {
                               return normalized_channels(in[0], in[1], in[2], dims, eps);
                             })
          : normalized_channels(x, options.weight, options.bias, dims, options.eps);
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  update_running(running_mean, outputs[1].array(), options.momentum, 1.0);
  update_running(running_var, outputs[2].array(), options.momentum, unbiased);
  return outputs[0].to(x.dtype());
}

}  // namespace

Tensor detail::standardize(const Tensor& x, const Dims& dims, double eps) {
  return record_multi(Standardize(dims, eps), x)[0];
}

Tensor detail::scale_and_shift(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (weight.defined() && bias.defined()) return addcmul(bias, x, weight);
  if (weight.defined()) return x * weight;
  return bias.defined() ? x + bias : x;
}

void detail::check_floating(const char* op, const Tensor& x) {
  check(is_floating(x.dtype()), op, ": x is ", x.dtype(), "; convert it to a floating dtype");
}

void detail::check_parameter(const char* op, const char* what, const Tensor& parameter,
                             const Shape& expected) {
  if (!parameter.defined()) return;
  check(parameter.shape() == expected, op, ": ", what, " has shape ", parameter.shape(),
        "; it should be ", expected);
}

Tensor group_norm(const Tensor& x, int64_t num_groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  if (const AutocastInputs in("group_norm", x); in.changed()) {
    return group_norm(in[0], num_groups, weight, bias, eps);
  }
  constexpr auto kName = "group_norm";
  check_floating(kName, x);
  check(x.ndim() >= 2, kName, ": x must be [N, C, ...]: got shape ", x.shape());
  const int64_t channels = x.size(1);
  check(num_groups > 0 && channels % num_groups == 0, kName, ": ", channels,
        " channels do not divide into ", num_groups, " groups");
  check_parameter(kName, "weight", weight, {channels});
  check_parameter(kName, "bias", bias, {channels});
  if (any_half(x, weight, bias)) {
    return in_float32(
               kName, {x, weight, bias},
               [=](const auto& in) { return group_norm(in[0], num_groups, in[1], in[2], eps); })
        .to(x.dtype());
  }
  const int64_t size = x.size(0) > 0 ? x.numel() / (x.size(0) * num_groups) : 0;
  const Tensor grouped = reshape(x, {x.size(0), num_groups, size});
  const Tensor y = standardize(grouped, {2}, eps);
  return scale_and_shift(reshape(y, x.shape()), per_channel(weight, x.ndim()),
                         per_channel(bias, x.ndim()))
      .to(x.dtype());
}

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options) {
  if (const AutocastInputs in("batch_norm", x); in.changed()) {
    return batch_norm(in[0], running_mean, running_var, options);
  }
  constexpr auto kName = "batch_norm";
  check_floating(kName, x);
  check(x.ndim() >= 2, kName, ": x must be [N, C, ...]: got shape ", x.shape());
  const Shape channels{x.size(1)};
  check_parameter(kName, "running_mean", running_mean, channels);
  check_parameter(kName, "running_var", running_var, channels);
  check_parameter(kName, "weight", options.weight, channels);
  check_parameter(kName, "bias", options.bias, channels);
  if (options.training) return batch_norm_training(x, running_mean, running_var, options);
  check(running_mean.defined() && running_var.defined(), kName,
        ": running_mean and running_var are needed unless training");
  if (any_half(x, running_mean, running_var, options.weight, options.bias)) {
    return in_float32(kName, {x, running_mean, running_var, options.weight, options.bias},
                      [=, eps = options.eps](const auto& in) {
                        return batch_norm(in[0], in[1], in[2],
                                          {.weight = in[3], .bias = in[4], .eps = eps});
                      })
        .to(x.dtype());
  }
  Tensor scale = rsqrt(running_var + options.eps);
  if (options.weight.defined()) scale = scale * options.weight;
  const Tensor centered = x - per_channel(running_mean, x.ndim());
  return scale_and_shift(centered, per_channel(scale, x.ndim()),
                         per_channel(options.bias, x.ndim()))
      .to(x.dtype());
}

}  // namespace hero

// Normalisation: one operation brings elements to mean 0 and variance 1 over some dimensions, the
// rest is scale and shift.
#include <hero/autograd/autocast.h>
#include <hero/autograd/checkpoint.h>
#include <hero/autograd/nn_ops.h>
#include <hero/autograd/ops/composed.h>
#include <hero/core/backend.h>
#include <hero/core/map.h>

namespace hero {

namespace {

namespace k = core::kernels;

Shape with_ones(const Shape& shape, const Dims& dims) {
  Shape result = shape;
  for (int64_t dim : dims) result[static_cast<int>(dim)] = 1;
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
    device.reduce(core::ReduceOp::sum, x, nullptr, mean);
    core::map_into<k::Mul>(mean, mean, share);
    device.reduce(core::ReduceOp::sum_deviation, x, &mean, variance);
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
      result = (g - mean(g, dims, true) - y * along_y) * scale;
    }
    if (grads[1].defined()) {
      const Tensor of_scale = y * (grads[1] * square(scale) * (-1.0 / count));
      result = result.defined() ? result + of_scale : of_scale;
    }
    return {result};
  }
};

// x weight + bias, either of which may be undefined.
Tensor scale_and_shift(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (weight.defined() && bias.defined()) return addcmul(bias, x, weight);
  if (weight.defined()) return x * weight;
  return bias.defined() ? x + bias : x;
}

// Layer norm (centered) and RMS norm of rows as one operation. Inputs: x [M, N] and, as `has` says,
// weight and bias [N].
struct NormalizeRows : Op {
  static constexpr unsigned kSaveInputs = 0b111;
  struct Has {
    bool weight, bias;
  } has;
  double eps;
  bool centered;
  NormalizeRows(Has h, double e, bool c) : has(h), eps(e), centered(c) {}
  const char* name() const override { return centered ? "layer_norm" : "rms_norm"; }

  Array forward(std::span<const Array> inputs) {
    const Array x = detail::fused_operand(inputs[0]);
    const Array weight = has.weight ? detail::fused_operand(inputs[1]) : Array();
    const Array bias = has.bias ? detail::fused_operand(inputs.back()) : Array();
    const Array center = Array::empty({x.size(0)}, detail::statistics_dtype(x.dtype()), x.device());
    const Array scale = center.empty_like();
    stash(center, 0);
    stash(scale, 1);
    const Array out = x.empty_like();
    const core::RowNorm norm{has.weight ? &weight : nullptr, has.bias ? &bias : nullptr, eps,
                             centered};
    core::backend(x.device()).normalize_rows(norm, x, out, center, scale);
    return out.to(inputs[0].dtype());
  }

  Grads backward(const Tensor& g) override {
    std::vector<Tensor> inputs;
    for (int i = 0; i < input_count(); ++i) inputs.push_back(input(i));
    if (grad_enabled()) {
      return detail::composed_backward(*this, inputs, {g}, [this](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{composed(in)};
      });
    }
    const Array x = detail::fused_operand(inputs[0].array());
    const Array weight = has.weight ? detail::fused_operand(inputs[1].array()) : Array();
    const Array g_x = x.empty_like();
    const Array g_weight = Array::empty({x.size(1)}, x.dtype(), x.device());
    const Array g_bias = g_weight.empty_like();
    const core::RowNorm norm{has.weight ? &weight : nullptr, nullptr, eps, centered};
    core::backend(x.device())
        .normalize_rows_backward(norm, detail::fused_operand(g.array()), x, stashed(0), stashed(1),
                                 g_x, has.weight ? &g_weight : nullptr,
                                 has.bias ? &g_bias : nullptr);
    Grads grads{Tensor(g_x)};
    if (has.weight) grads.push_back(Tensor(g_weight));
    if (has.bias) grads.push_back(Tensor(g_bias));
    return grads;
  }

  Tensor composed(const std::vector<Tensor>& in) const {
    const Tensor y = centered ? record_multi(Standardize({1}, eps), in[0])[0]
                              : in[0] * rsqrt(hero::mean(square(in[0]), {1}, true) + eps);
    return scale_and_shift(y, has.weight ? in[1] : Tensor(), has.bias ? in.back() : Tensor());
  }
};

// Rows of x's last `trailing` dimensions; parameters of another dtype than x promote.
Tensor normalize_rows(const Tensor& x, int trailing, const Tensor& weight, const Tensor& bias,
                      double eps, bool centered) {
  Shape flat{1, 1};
  for (int i = 0; i < x.ndim(); ++i) flat[i < x.ndim() - trailing ? 0 : 1] *= x.shape()[i];
  const bool same = (!weight.defined() || weight.dtype() == x.dtype()) &&
                    (!bias.defined() || bias.dtype() == x.dtype());
  std::vector<Tensor> inputs{reshape(x, flat)};
  const NormalizeRows::Has has{same && weight.defined(), same && bias.defined()};
  if (has.weight) inputs.push_back(reshape(weight, {flat[1]}));
  if (has.bias) inputs.push_back(reshape(bias, {flat[1]}));
  const Tensor y = reshape(record_list(NormalizeRows(has, eps, centered), inputs), x.shape());
  return same ? y : scale_and_shift(y, weight, bias);
}

void check_floating(const char* op, const Tensor& x) {
  check(is_floating(x.dtype()), op, ": x is ", x.dtype(), "; convert it to a floating dtype");
}

void check_parameter(const char* op, const char* what, const Tensor& parameter,
                     const Shape& expected) {
  if (!parameter.defined()) return;
  check(parameter.shape() == expected, op, ": ", what, " has shape ", parameter.shape(),
        "; it should be ", expected);
}

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
  running.mul_(1.0 - momentum);
  running.add_(value, momentum * factor);
}

Tensor batch_norm_training(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                           const BatchNormOptions& options) {
  const int64_t count = x.size(1) > 0 ? x.numel() / x.size(1) : 0;
  check(count > 1 || x.size(1) == 0,
        "batch_norm: training needs more than one value a channel: ", x.shape(),
        "; use a larger batch or training = false");
  Dims dims{0};
  for (int i = 2; i < x.ndim(); ++i) dims.push_back(i);
  const std::vector<Tensor> outputs = record_multi(Standardize(dims, options.eps), x);
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  update_running(running_mean, outputs[2].array(), options.momentum, 1.0);
  update_running(running_var, outputs[3].array(), options.momentum, unbiased);
  return scale_and_shift(outputs[0], per_channel(options.weight, x.ndim()),
                         per_channel(options.bias, x.ndim()));
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  if (const AutocastInputs in("layer_norm", x); in.changed()) {
    return layer_norm(in[0], normalized_shape, weight, bias, eps);
  }
  constexpr auto kName = "layer_norm";
  check_floating(kName, x);
  const int lead = x.ndim() - normalized_shape.size();
  check(!normalized_shape.empty() && lead >= 0, kName, ": normalized_shape ", normalized_shape,
        " is not a tail of x's shape ", x.shape());
  for (int i = 0; i < normalized_shape.size(); ++i) {
    check(x.shape()[lead + i] == normalized_shape[i], kName, ": normalized_shape ",
          normalized_shape, " is not a tail of x's shape ", x.shape());
  }
  check_parameter(kName, "weight", weight, normalized_shape);
  check_parameter(kName, "bias", bias, normalized_shape);
  return normalize_rows(x, normalized_shape.size(), weight, bias, eps, true);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  if (const AutocastInputs in("rms_norm", x); in.changed()) {
    return rms_norm(in[0], weight, eps);
  }
  constexpr auto kName = "rms_norm";
  check_floating(kName, x);
  check(x.ndim() > 0, kName, ": x needs a dimension: got a scalar");
  check_parameter(kName, "weight", weight, {x.size(-1)});
  return normalize_rows(x, 1, weight, {}, eps, false);
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
  const int64_t size = x.size(0) > 0 ? x.numel() / (x.size(0) * num_groups) : 0;
  const Tensor grouped = reshape(x, {x.size(0), num_groups, size});
  const Tensor y = record_multi(Standardize({2}, eps), grouped)[0];
  return scale_and_shift(reshape(y, x.shape()), per_channel(weight, x.ndim()),
                         per_channel(bias, x.ndim()));
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
  Tensor scale = rsqrt(running_var + options.eps);
  if (options.weight.defined()) scale = scale * options.weight;
  const Tensor centered = x - per_channel(running_mean, x.ndim());
  return scale_and_shift(centered, per_channel(scale, x.ndim()),
                         per_channel(options.bias, x.ndim()));
}

}  // namespace hero

// The composed definition of norms: an operation that normalises to mean 0 and variance 1 over some
// dimensions, followed by scale and shift; and norms of groups of channels, which are rows.
#include <algorithm>

#include <hero/autograd/graph/op.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/autograd/ops/conv/conv.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/nn/norm.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/core/device/backend.h>
#include <hero/core/device/kernel_traits.h>
#include <hero/core/functions/map.h>

namespace hero {

namespace {

namespace k = core::kernels;
using detail::any_half, detail::in_float32, detail::per_channel;
using detail::check_floating, detail::check_parameter, detail::scale_and_shift;

Shape with_ones(const Shape& shape, const Dims& dims) {
  Shape result = shape;
  for (int64_t dim : dims) result[static_cast<int>(dim)] = 1;
  return result;
}

// Outputs: (x - mean) r and r = 1 / sqrt(variance + eps), of the biased variance.
struct Standardize : MultiOp {
  static constexpr AutocastRule kAutocast = AutocastRule::float32;
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
    device.run(core::call::Reduce{core::ReduceKind::sum, x, nullptr, mean});
    core::map_into<k::Mul>(mean, mean, share);
    device.run(core::call::Reduce{core::ReduceKind::sum_deviation, x, &mean, variance});
    core::map_into<k::Mul>(variance, variance, share);
    const Array scale = core::map<k::Add>(variance, eps);
    core::map_into<k::Rsqrt>(scale, scale);
    const Array y = x.empty_like();
    core::map_into<k::Sub>(y, x, mean);
    core::map_into<k::Mul>(y, y, scale);
    return {y, scale};
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

}  // namespace

Tensor detail::standardize(const Tensor& x, const Dims& dims, double eps) {
  return record_multi(Standardize(dims, eps), x)[0];
}

Tensor detail::scale_and_shift(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (weight.defined() && bias.defined()) return addcmul(bias, x, weight);
  if (weight.defined()) return x * weight;
  return bias.defined() ? x + bias : x;
}

Tensor detail::per_channel(const Tensor& parameter, int ndim) {
  if (!parameter.defined()) return parameter;
  Shape shape = Shape::filled(ndim, 1);
  shape[1] = parameter.numel();
  return reshape(parameter, shape);
}

void detail::check_floating(const char* op, const Tensor& x) {
  check(is_floating(x.dtype()), op, ": x is ", x.dtype(), "; convert it to a floating dtype");
}

void detail::check_eps(const char* op, double eps) {
  check(eps >= 0.0, op, ": eps must not be negative: ", eps);
}

void detail::check_parameter(const char* op, const char* what, const Tensor& parameter,
                             const Shape& expected) {
  if (!parameter.defined()) return;
  check(parameter.shape() == expected, op, ": ", what, " has shape ", parameter.shape(),
        "; it should be ", expected);
}

Tensor group_norm(const Tensor& x, int64_t num_groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  detail::check_defined("group_norm", {{"x", x}});
  if (const AutocastInputs in(AutocastRule::float32, x); in.changed()) {
    return group_norm(in[0], num_groups, weight, bias, eps);
  }
  constexpr auto kName = "group_norm";
  check_floating(kName, x);
  detail::check_eps(kName, eps);
  check(x.ndim() >= 2, kName, ": x must be [N, C, ...]: got shape ", x.shape());
  const int64_t channels = x.size(1);
  check(num_groups > 0 && channels % num_groups == 0, kName, ": ", channels,
        " channels do not divide into ", num_groups, " groups");
  check(x.numel() != num_groups, kName, ": needs more than one value per group: x ", x.shape(),
        " in ", num_groups, " groups; use fewer groups");
  check_parameter(kName, "weight", weight, {channels});
  check_parameter(kName, "bias", bias, {channels});
  const auto is_wide = [](const Tensor& t) { return t.defined() && t.dtype() == kFloat64; };
  constexpr int64_t kShort = 16;  // elements of a plane that are not worth loops of their own
  if (x.numel() >= std::max<int64_t>(1, x.size(0) * channels * kShort) && !is_wide(x) &&
      !is_wide(weight) && !is_wide(bias) && core::kernel_traits(x.device()).normalizes_groups) {
    return detail::group_norm_rows(x, num_groups, weight, bias, eps);
  }
  if (any_half(x, weight, bias)) {
    return in_float32(
               kName, AutocastRule::float32, {x, weight, bias},
               [=](const auto& in) { return group_norm(in[0], num_groups, in[1], in[2], eps); })
        .to(x.dtype());
  }
  const int64_t size = x.size(0) > 0 ? x.numel() / (x.size(0) * num_groups) : 0;
  const Tensor y = layer_norm(reshape(x, {x.size(0) * num_groups, size}), {size}, {}, {}, eps);
  return scale_and_shift(reshape(y, x.shape()), per_channel(weight, x.ndim()),
                         per_channel(bias, x.ndim()))
      .to(x.dtype());
}

Tensor normalize(const Tensor& x, double p, int64_t dim, double eps) {
  const detail::Named named("normalize", {"x", x});
  detail::check_defined("normalize", {{"x", x}});
  if (detail::any_half(x)) {
    return detail::in_float32("normalize", AutocastRule::fallthrough, {x},
                              [=](const auto& in) { return normalize(in[0], p, dim, eps); });
  }
  return x / clamp(norm(x, p, Dims{dim}, true), eps, {});
}

Tensor local_response_norm(const Tensor& x, int64_t size, double alpha, double beta, double k) {
  const detail::Named named("local_response_norm", {"x", x});
  detail::check_defined("local_response_norm", {{"x", x}});
  check(x.ndim() >= 3, "local_response_norm: x must be [N, C, ..]: got shape ", x.shape());
  check(size > 0, "local_response_norm: size must be positive: ", size);
  if (detail::any_half(x)) {
    return detail::in_float32(
        "local_response_norm", AutocastRule::fallthrough, {x},
        [=](const auto& in) { return local_response_norm(in[0], size, alpha, beta, k); });
  }
  if (x.numel() == 0) return clone(x);
  std::vector<int64_t> padding(static_cast<size_t>(2 * (x.ndim() - 1)), 0);
  padding[padding.size() - 2] = size / 2;
  padding[padding.size() - 1] = (size - 1) / 2;
  const Tensor means = mean(unfold(pad(square(x), padding), 1, size, 1), Dims{-1});
  return x / pow(means * alpha + k, beta);
}

// Groups of one channel.
static Tensor by_own_statistics(const Tensor& x, const InstanceNormOptions& options) {
  check(x.numel() == 0 || x.numel() > x.size(0) * x.size(1),
        "instance_norm: needs more than one value per channel of each sample: x ", x.shape(),
        "; use batch_norm or larger samples");
  return group_norm(x, x.size(1), options.weight, options.bias, options.eps);
}

Tensor instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                     const InstanceNormOptions& options) {
  const detail::Named named("instance_norm", {"x", x});
  detail::check_defined("instance_norm", {{"x", x}});
  constexpr auto kName = "instance_norm";
  check(x.ndim() >= 3, kName, ": x must be [N, C, ..]: got shape ", x.shape());
  check(is_floating(x.dtype()), kName, ": x is ", x.dtype(), "; convert it to a floating dtype");
  check(running_mean.defined() == running_var.defined(), kName,
        ": give both running_mean and running_var, or none");
  if (!options.use_input_stats) {
    return batch_norm(x, running_mean, running_var,
                      {.weight = options.weight, .bias = options.bias, .eps = options.eps});
  }
  const Tensor y = by_own_statistics(x, options);
  if (!running_mean.defined() || x.numel() == 0) return y;
  for (const Tensor& running : {running_mean, running_var}) {
    check(running.shape() == Shape{x.size(1)}, kName, ": running statistics of shape ",
          running.shape(), " for ", x.size(1), " channels");
  }
  const NoGrad no_grad;
  const Tensor wide = detail::is_half(x) ? x.detach().to(kFloat32) : x.detach();
  const VarMean found = var_mean(flatten(wide, 2, -1), {.dims = {2}});
  detail::update_running(running_mean, mean(found.mean, Dims{0}).array(), options.momentum, 1.0);
  detail::update_running(running_var, mean(found.var, Dims{0}).array(), options.momentum, 1.0);
  return y;
}

}  // namespace hero

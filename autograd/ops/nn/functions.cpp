// Functions of torch.nn.functional made of others.
#include <cmath>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/detail/defined.h>
#include <hero/autograd/ops/detail/in_float32.h>
#include <hero/autograd/ops/detail/named.h>
#include <hero/autograd/ops/detail/part_of_batch.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/norm.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/autograd/ops/windows/interpolate.h>

namespace hero {

Tensor normalize(const Tensor& x, double p, int64_t dim, double eps) {
  const detail::Named named("normalize", {"x", x});
  detail::check_defined("normalize", {{"x", x}});
  if (detail::any_half(x)) {
    return detail::in_float32("normalize", {x},
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
    return detail::in_float32("local_response_norm", {x}, [=](const auto& in) {
      return local_response_norm(in[0], size, alpha, beta, k);
    });
  }
  if (x.numel() == 0) return clone(x);
  std::vector<int64_t> padding(static_cast<size_t>(2 * (x.ndim() - 1)), 0);
  padding[padding.size() - 2] = size / 2;
  padding[padding.size() - 1] = (size - 1) / 2;
  const Tensor means = mean(unfold(pad(square(x), padding), 1, size, 1), Dims{-1});
  return x / pow(means * alpha + k, beta);
}

// Groups of one channel.
Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const detail::Named named("instance_norm", {"x", x});
  detail::check_defined("instance_norm", {{"x", x}});
  check(x.ndim() >= 3, "instance_norm: x must be [N, C, ..]: got shape ", x.shape());
  check(x.numel() == 0 || x.numel() > x.size(0) * x.size(1),
        "instance_norm: needs more than one value per channel of each sample: x ", x.shape(),
        "; use batch_norm or larger samples");
  return group_norm(x, x.size(1), weight, bias, eps);
}

Tensor instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                     const InstanceNormOptions& options) {
  const detail::Named named("instance_norm", {"x", x}, {"running_mean", running_mean},
                            {"running_var", running_var});
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
  const Tensor y = instance_norm(x, options.weight, options.bias, options.eps);
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

namespace {

// One number decides for all elements of x that share it: `drawn` broadcasts to x's shape.
Tensor alpha_dropped(const char* op, const Tensor& x, double p, bool training, const Shape& drawn) {
  check(p >= 0.0 && p <= 1.0, op, ": the probability is not in [0, 1]: ", p);
  if (!training || p == 0.0) return x;
  check(is_floating(x.dtype()), op, ": x is ", x.dtype(), "; it must be floating");
  if (p == 1.0) return x * 0.0;
  constexpr double kDropped = -1.7580993408473766;  // selu at minus infinity
  const double scale = 1.0 / std::sqrt((1.0 - p) * (1.0 + p * kDropped * kDropped));
  const Tensor keeps = detail::rand_of_part(drawn, {.device = x.device()}) >= p;
  return where(keeps, x, kDropped) * scale - scale * p * kDropped;
}

}  // namespace

Tensor alpha_dropout(const Tensor& x, double p, bool training) {
  detail::check_defined("alpha_dropout", {{"x", x}});
  return alpha_dropped("alpha_dropout", x, p, training, x.shape());
}

Tensor feature_alpha_dropout(const Tensor& x, double p, bool training) {
  detail::check_defined("feature_alpha_dropout", {{"x", x}});
  constexpr auto kName = "feature_alpha_dropout";
  check(x.ndim() >= 2 || !training || p == 0.0, kName, ": x must be [N, C, ..]: got shape ",
        x.shape());
  Shape channels = x.shape();
  for (int i = 2; i < x.ndim(); ++i) channels[i] = 1;
  return alpha_dropped(kName, x, p, training, channels);
}

Tensor rrelu(const Tensor& x, double lower, double upper, bool training) {
  detail::check_defined("rrelu", {{"x", x}});
  check(lower <= upper, "rrelu: lower ", lower, " is above upper ", upper);
  check(is_floating(x.dtype()), "rrelu: x is ", x.dtype(), "; it must be floating");
  if (!training) return leaky_relu(x, (lower + upper) / 2.0);
  const TensorOptions like{.dtype = x.dtype(), .device = x.device()};
  return where(x <= 0, x * (detail::rand_of_part(x.shape(), like) * (upper - lower) + lower), x);
}

Tensor dropout3d(const Tensor& x, double p, bool training) {
  const detail::Named named("dropout3d", {"x", x});
  detail::check_defined("dropout3d", {{"x", x}});
  check(x.ndim() == 4 || x.ndim() == 5,
        "dropout3d: x must be [N, C, D, H, W] or [C, D, H, W]: got ", x.shape());
  if (x.ndim() == 5) return dropout2d(x, p, training);
  return squeeze(dropout2d(unsqueeze(x, 0), p, training), 0);
}

Tensor multilabel_margin_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  detail::check_defined("multilabel_margin_loss", {{"x", x}, {"y", y}});
  if (x.ndim() == 0 && y.ndim() == 0) {  // one class, so nothing can be wrong
    return multilabel_margin_loss(reshape(x, {1}), reshape(y, {1}), reduction);
  }
  check((x.ndim() == 1 || x.ndim() == 2) && x.shape() == y.shape(),
        "multilabel_margin_loss: scores ", x.shape(), " and classes ", y.shape(),
        " must be [N, C] or [C]");
  check(y.dtype() == kInt64, "multilabel_margin_loss: classes are ", y.dtype(),
        "; they must be int64");
  if (detail::any_half(x)) {
    return detail::in_float32("multilabel_margin_loss", {x, y}, [reduction](const auto& in) {
      return multilabel_margin_loss(in[0], in[1], reduction);
    });
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

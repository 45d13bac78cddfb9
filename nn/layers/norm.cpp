#include <limits>

#include <hero/autograd/graph/checkpoint.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/shape/shape.h>
#include <hero/nn/module/repr.h>
#include <hero/nn/norm.h>

namespace hero::nn {

using repr::text;

StatisticsNorm::StatisticsNorm(int64_t features, const BatchNormOptions& options)
    : num_features(features),
      weight(options.affine ? parameter("weight", {features}, init::ones())
                            : no_parameter("weight")),
      bias(options.affine && options.bias ? parameter("bias", {features}, init::zeros())
                                          : no_parameter("bias")),
      running_mean(options.track_running_stats ? buffer("running_mean", {features}, init::zeros())
                                               : no_parameter("running_mean")),
      running_var(options.track_running_stats ? buffer("running_var", {features}, init::ones())
                                              : no_parameter("running_var")),
      num_batches_tracked(options.track_running_stats
                              ? buffer("num_batches_tracked", {}, init::zeros(), kInt64)
                              : no_parameter("num_batches_tracked")),
      options_(options) {}

std::string StatisticsNorm::extra_repr() const {
  const std::string momentum = options_.momentum ? text(*options_.momentum) : "None";
  return std::to_string(num_features) + ", eps=" + text(options_.eps) + ", momentum=" + momentum +
         ", affine=" + text(options_.affine) + ", bias=" + text(bias.defined()) +
         ", track_running_stats=" + text(options_.track_running_stats);
}

void StatisticsNorm::reset_running_stats() {
  if (!running_mean.defined()) return;
  const NoGrad no_grad;
  running_mean.zero_();
  running_var.fill_(1.0);
  num_batches_tracked.zero_();
}

double BatchNorm::next_momentum() {
  const NoGrad no_grad;
  const detail::LeafTurn turn(num_batches_tracked.impl()->lock);
  // When activation checkpointing repeats a forward, the statistics contain this batch already.
  if (!recomputing()) num_batches_tracked.add_(1);
  if (options().momentum) return *options().momentum;
  if (num_batches_tracked.device() == kMeta) return 0.0;
  return 1.0 / static_cast<double>(num_batches_tracked.item<int64_t>());
}

Tensor BatchNorm::forward(const Tensor& x) {
  check_input(x);
  const bool tracks = running_mean.defined();
  hero::BatchNormOptions call{.weight = weight, .bias = bias};
  call.eps = options().eps;
  call.training = training() || !tracks;
  if (training() && tracks) call.momentum = next_momentum();
  return batch_norm(x, running_mean, running_var, call);
}

void BatchNorm1d::check_input(const Tensor& x) const {
  check((x.ndim() == 2 || x.ndim() == 3) && x.size(1) == num_features, "BatchNorm1d: expected [N, ",
        num_features, "] or [N, ", num_features, ", L], got ", x.shape());
}

void BatchNorm2d::check_input(const Tensor& x) const {
  check(x.ndim() == 4 && x.size(1) == num_features, "BatchNorm2d: expected [N, ", num_features,
        ", H, W], got ", x.shape());
}

void BatchNorm3d::check_input(const Tensor& x) const {
  check(x.ndim() == 5 && x.size(1) == num_features, "BatchNorm3d: expected [N, ", num_features,
        ", D, H, W], got ", x.shape());
}

namespace {

bool ends_with(const Shape& shape, const Shape& tail) {
  const int lead = shape.size() - tail.size();
  for (int i = 0; lead >= 0 && i < tail.size(); ++i) {
    if (shape[lead + i] != tail[i]) return false;
  }
  return lead >= 0;
}

void check_tail(const char* layer, const Tensor& x, const Shape& tail) {
  if (ends_with(x.shape(), tail)) return;
  std::string expected = "[..";
  for (const int64_t size : tail) expected += ", " + std::to_string(size);
  fail(layer, ": expected ", expected, "], got ", x.shape());
}

const Shape& not_empty(const char* layer, const Shape& shape) {
  check(!shape.empty(), layer, ": normalized_shape needs a dimension");
  return shape;
}

}  // namespace

SumAndNorm ResidualNorm::operator()(const Tensor& x, const Tensor& residual) {
  if (has_hooks_for_values() || x.shape() != residual.shape()) {
    const Tensor sum = x + residual;
    return {sum, (*this)(sum)};
  }
  const Tensors out = run_hooked({x, residual}, [this](const Tensors& in) -> Tensors {
    const auto [sum, norm] = forward_sum(in[0], in[1]);
    return {sum, norm};
  });
  return {out[0], out[1]};
}

LayerNorm::LayerNorm(const Shape& shape, const LayerNormOptions& options)
    : normalized_shape(not_empty("LayerNorm", shape)),
      weight(options.elementwise_affine ? parameter("weight", shape, init::ones())
                                        : no_parameter("weight")),
      bias(options.elementwise_affine && options.bias ? parameter("bias", shape, init::zeros())
                                                      : no_parameter("bias")),
      eps_(options.eps) {}

SumAndNorm LayerNorm::forward_sum(const Tensor& x, const Tensor& residual) {
  check_tail("LayerNorm", x, normalized_shape);
  return add_layer_norm(x, residual, normalized_shape, weight, bias, eps_);
}

Tensor LayerNorm::forward(const Tensor& x) {
  check_tail("LayerNorm", x, normalized_shape);
  return layer_norm(x, normalized_shape, weight, bias, eps_);
}

std::string LayerNorm::extra_repr() const {
  return repr::tuple(normalized_shape) + ", eps=" + text(eps_) +
         ", elementwise_affine=" + text(weight.defined()) + ", bias=" + text(bias.defined());
}

RMSNorm::RMSNorm(const Shape& shape, const RMSNormOptions& options)
    : normalized_shape(not_empty("RMSNorm", shape)),
      weight(options.elementwise_affine ? parameter("weight", shape, init::ones())
                                        : no_parameter("weight")),
      eps_(options.eps) {}

SumAndNorm RMSNorm::forward_sum(const Tensor& x, const Tensor& residual) {
  check_tail("RMSNorm", x, normalized_shape);
  if (normalized_shape.size() > 1) {
    const Tensor sum = x + residual;
    return {sum, forward(sum)};
  }
  return add_rms_norm(x, residual, weight, eps_);
}

Tensor RMSNorm::forward(const Tensor& x) {
  check_tail("RMSNorm", x, normalized_shape);
  return rms_norm(x, normalized_shape, weight, eps_);
}

std::string RMSNorm::extra_repr() const {
  return repr::tuple(normalized_shape) + ", eps=" + (eps_ ? text(*eps_) : "None") +
         ", elementwise_affine=" + text(weight.defined());
}

namespace {

int64_t dividing(int64_t groups, int64_t channels) {
  check(groups > 0 && channels % groups == 0, "GroupNorm: ", channels,
        " channels do not divide into ", groups, " groups");
  return groups;
}

}  // namespace

GroupNorm::GroupNorm(int64_t groups, int64_t channels, const GroupNormOptions& options)
    : num_groups(dividing(groups, channels)),
      num_channels(channels),
      weight(options.affine ? parameter("weight", {channels}, init::ones())
                            : no_parameter("weight")),
      bias(options.affine && options.bias ? parameter("bias", {channels}, init::zeros())
                                          : no_parameter("bias")),
      eps_(options.eps) {}

Tensor GroupNorm::forward(const Tensor& x) {
  check(x.ndim() >= 2 && x.size(1) == num_channels, "GroupNorm: expected [N, ", num_channels,
        ", ..], got ", x.shape());
  return group_norm(x, num_groups, weight, bias, eps_);
}

std::string GroupNorm::extra_repr() const {
  return std::to_string(num_groups) + ", " + std::to_string(num_channels) + ", eps=" + text(eps_) +
         ", affine=" + text(weight.defined()) + ", bias=" + text(bias.defined());
}

InstanceNorm::InstanceNorm(int64_t features, const InstanceNormOptions& options)
    : StatisticsNorm(features, {.eps = options.eps,
                                .momentum = options.momentum,
                                .affine = options.affine,
                                .bias = options.bias,
                                .track_running_stats = options.track_running_stats}) {}

Tensor InstanceNorm::forward(const Tensor& x) {
  const int batched = batched_ndim();
  if ((x.ndim() != batched && x.ndim() != batched - 1) ||
      x.size(x.ndim() - batched + 1) != num_features) {
    fail(type_name(), ": expected ", num_features, " channels in dimension 1 of ", batched,
         " (or 0 of ", batched - 1, "), got ", x.shape());
  }
  if (x.ndim() < batched) return squeeze(forward(unsqueeze(x, 0)), 0);
  return instance_norm(x, running_mean, running_var,
                       {.weight = weight,
                        .bias = bias,
                        .use_input_stats = training() || !running_mean.defined(),
                        .momentum = options().momentum.value_or(0.0),
                        .eps = options().eps});
}

Tensor LocalResponseNorm::forward(const Tensor& x) {
  return local_response_norm(x, size_, options_.alpha, options_.beta, options_.k);
}

std::string LocalResponseNorm::extra_repr() const {
  return std::to_string(size_) + ", alpha=" + text(options_.alpha) +
         ", beta=" + text(options_.beta) + ", k=" + text(options_.k);
}

}  // namespace hero::nn

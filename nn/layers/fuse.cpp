// Functions for batch norms after training: update_bn() and fusing.
#include <hero/autograd/ops/conv/conv.h>
#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/nn/conv.h>
#include <hero/nn/linear.h>
#include <hero/nn/norm.h>

namespace hero::nn {

namespace {

// Makes weight and bias of a layer those of the layer and the norm behind it. `by_output` brings a
// number for each output into a shape that broadcasts with the weight.
template <class ByOutput>
void fold(const char* name, const Module& layer, Tensor& weight, Tensor& bias, int64_t outputs,
          const BatchNorm& bn, const ByOutput& by_output) {
  check(!layer.training() && !bn.training(), name, ": layer and norm must be in evaluation mode");
  check(bn.running_mean.defined(), name, ": the norm has no running statistics");
  check(bn.num_features == outputs, name, ": a norm of ", bn.num_features, " channels behind ",
        outputs, " outputs");
  const NoGrad no_grad;
  const auto wide = [](const Tensor& x) { return x.to(kFloat64); };
  Tensor scale = rsqrt(wide(bn.running_var) + bn.options().eps), shift = -wide(bn.running_mean);
  if (bn.weight.defined()) scale = scale * wide(bn.weight);
  if (bias.defined()) shift = shift + wide(bias);
  shift = shift * scale;
  if (bn.bias.defined()) shift = shift + wide(bn.bias);
  if (!bias.defined()) {
    bias = zeros({outputs}, {.dtype = weight.dtype(), .device = weight.device()});
    bias.requires_grad_(weight.requires_grad());
  }
  bias.copy_(shift);
  weight.copy_(wide(weight) * by_output(scale));
}

}  // namespace

void fuse_conv_bn_eval(Convolution& conv, const BatchNorm& bn) {
  const auto by_output = [&](const Tensor& scale) {
    Shape shape = conv.weight.shape();
    for (int64_t& size : shape) size = 1;
    if (!conv.spec_.transposed) {
      shape[0] = conv.out_channels;
      return scale.reshape(shape);
    }
    // [C, O / groups, ..]: rows of a group have the outputs of that group.
    const int64_t groups = conv.spec_.groups, rows = conv.in_channels / groups;
    shape[0] = conv.in_channels;
    shape[1] = conv.out_channels / groups;
    return scale.reshape({groups, 1, shape[1]}).expand({groups, rows, shape[1]}).reshape(shape);
  };
  fold("fuse_conv_bn_eval", conv, conv.weight, conv.bias, conv.out_channels, bn, by_output);
}

void fuse_linear_bn_eval(Linear& linear, const BatchNorm& bn) {
  check(!linear.has_adapter(), "fuse_linear_bn_eval: merge and remove the layer's adapter first");
  fold("fuse_linear_bn_eval", linear, linear.weight, linear.bias, linear.out_features, bn,
       [](const Tensor& scale) { return scale.unsqueeze(1); });
}

void update_bn(Module& module, const std::function<void()>& forwards) {
  struct Before {
    Module* module;
    bool training;
    std::optional<double> momentum;
  };
  std::vector<Before> before;
  const auto restore = [&] {
    for (const Before& one : before) {
      one.module->train(one.training);
      if (auto* norm = dynamic_cast<BatchNorm*>(one.module)) norm->set_momentum(one.momentum);
    }
  };
  // Parents come first, so that a module's own mode is set after those of the modules above it.
  for (Module* each : module.modules()) {
    auto* norm = dynamic_cast<BatchNorm*>(each);
    before.push_back({each, each->training(), norm ? norm->options().momentum : std::nullopt});
    if (norm == nullptr) continue;
    norm->reset_running_stats();
    norm->set_momentum({});
  }
  module.train();
  const NoGrad no_grad;
  try {
    forwards();
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

}  // namespace hero::nn

#include <hero/nn/loss.h>

namespace hero::nn {

Tensor Loss::operator()(const Tensor& x, const Tensor& target) {
  return run_hooked({x, target},
                    [this](const Tensors& in) { return Tensors{forward(in[0], in[1])}; })[0];
}

Tensor& Loss::optional_buffer(const std::string& name, const Tensor& values) {
  return values.defined() ? buffer(name, values) : no_parameter(name);
}

Tensor Loss3::operator()(const Tensor& a, const Tensor& b, const Tensor& c) {
  return run_hooked({a, b, c},
                    [this](const Tensors& in) { return Tensors{forward(in[0], in[1], in[2])}; })[0];
}

Tensor CTCLoss::forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                        const Tensor& target_lengths) {
  return ctc_loss(log_probs, targets, input_lengths, target_lengths, options_);
}
Tensor CTCLoss::operator()(const Tensor& log_probs, const Tensor& targets,
                           const Tensor& input_lengths, const Tensor& target_lengths) {
  return run_hooked({log_probs, targets, input_lengths, target_lengths}, [this](const Tensors& in) {
    return Tensors{forward(in[0], in[1], in[2], in[3])};
  })[0];
}

MultiLabelSoftMarginLoss::MultiLabelSoftMarginLoss(const BceOptions& options)
    : reduction_(options.reduction), weight_(optional_buffer("weight", options.weight)) {}
Tensor MultiLabelSoftMarginLoss::forward(const Tensor& x, const Tensor& target) {
  return multilabel_soft_margin_loss(x, target, weight_, reduction_);
}

}  // namespace hero::nn

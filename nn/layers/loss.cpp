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

Tensor MSELoss::forward(const Tensor& x, const Tensor& target) {
  return mse_loss(x, target, reduction_);
}
Tensor L1Loss::forward(const Tensor& x, const Tensor& target) {
  return l1_loss(x, target, reduction_);
}
Tensor HuberLoss::forward(const Tensor& x, const Tensor& target) {
  return huber_loss(x, target, delta_, reduction_);
}
Tensor SmoothL1Loss::forward(const Tensor& x, const Tensor& target) {
  return smooth_l1_loss(x, target, beta_, reduction_);
}
Tensor PoissonNLLLoss::forward(const Tensor& x, const Tensor& target) {
  return poisson_nll_loss(x, target, options_);
}
Tensor GaussianNLLLoss::forward(const Tensor& x, const Tensor& target, const Tensor& variance) {
  return gaussian_nll_loss(x, target, variance, options_);
}

// The buffer, not the tensor given, follows the module to other dtypes and devices.
CrossEntropyLoss::CrossEntropyLoss(const CrossEntropyOptions& options)
    : options_(options), weight_(optional_buffer("weight", options.weight)) {}
Tensor CrossEntropyLoss::forward(const Tensor& x, const Tensor& target) {
  CrossEntropyOptions options = options_;
  options.weight = weight_;
  return cross_entropy(x, target, options);
}

NLLLoss::NLLLoss(const NllOptions& options)
    : options_(options), weight_(optional_buffer("weight", options.weight)) {}
Tensor NLLLoss::forward(const Tensor& x, const Tensor& target) {
  NllOptions options = options_;
  options.weight = weight_;
  return nll_loss(x, target, options);
}

BCELoss::BCELoss(const BceOptions& options)
    : options_(options), weight_(optional_buffer("weight", options.weight)) {}
Tensor BCELoss::forward(const Tensor& x, const Tensor& target) {
  return binary_cross_entropy(x, target, {.weight = weight_, .reduction = options_.reduction});
}

BCEWithLogitsLoss::BCEWithLogitsLoss(const BceWithLogitsOptions& options)
    : options_(options),
      weight_(optional_buffer("weight", options.weight)),
      pos_weight_(optional_buffer("pos_weight", options.pos_weight)) {}
Tensor BCEWithLogitsLoss::forward(const Tensor& x, const Tensor& target) {
  return binary_cross_entropy_with_logits(
      x, target, {.weight = weight_, .pos_weight = pos_weight_, .reduction = options_.reduction});
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

Tensor KLDivLoss::forward(const Tensor& x, const Tensor& target) {
  return kl_div(x, target, reduction_, log_target_);
}

Tensor HingeEmbeddingLoss::forward(const Tensor& x, const Tensor& target) {
  return hinge_embedding_loss(x, target, margin_, reduction_);
}
Tensor SoftMarginLoss::forward(const Tensor& x, const Tensor& target) {
  return soft_margin_loss(x, target, reduction_);
}

MultiMarginLoss::MultiMarginLoss(const MultiMarginOptions& options)
    : options_(options), weight_(optional_buffer("weight", options.weight)) {}
Tensor MultiMarginLoss::forward(const Tensor& x, const Tensor& target) {
  MultiMarginOptions options = options_;
  options.weight = weight_;
  return multi_margin_loss(x, target, options);
}

MultiLabelSoftMarginLoss::MultiLabelSoftMarginLoss(const BceOptions& options)
    : reduction_(options.reduction), weight_(optional_buffer("weight", options.weight)) {}
Tensor MultiLabelMarginLoss::forward(const Tensor& x, const Tensor& target) {
  return multilabel_margin_loss(x, target, reduction_);
}
Tensor MultiLabelSoftMarginLoss::forward(const Tensor& x, const Tensor& target) {
  return multilabel_soft_margin_loss(x, target, weight_, reduction_);
}

Tensor MarginRankingLoss::forward(const Tensor& a, const Tensor& b, const Tensor& target) {
  return margin_ranking_loss(a, b, target, margin_, reduction_);
}
Tensor CosineEmbeddingLoss::forward(const Tensor& a, const Tensor& b, const Tensor& target) {
  return cosine_embedding_loss(a, b, target, margin_, reduction_);
}
Tensor TripletMarginLoss::forward(const Tensor& anchor, const Tensor& positive,
                                  const Tensor& negative) {
  return triplet_margin_loss(anchor, positive, negative, options_);
}

Tensor CosineSimilarity::forward(const Tensor& a, const Tensor& b) {
  return cosine_similarity(a, b, dim_, eps_);
}
Tensor PairwiseDistance::forward(const Tensor& a, const Tensor& b) {
  return pairwise_distance(a, b, p_, eps_, keepdim_);
}

}  // namespace hero::nn

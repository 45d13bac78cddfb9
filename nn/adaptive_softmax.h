#pragma once
// AdaptiveLogSoftmaxWithLoss: a softmax over many classes that computes the logits of only a few of
// them for most rows.
#include <vector>

#include <hero/nn/container.h>
#include <hero/nn/linear.h>

namespace hero::nn {

/// Options of AdaptiveLogSoftmaxWithLoss.
struct AdaptiveLogSoftmaxOptions {
  double div_value = 4.0;  ///< each cluster's inner size is the one before divided by this
  bool head_bias = false;  ///< true: the head's logits have a bias
};

/// What AdaptiveLogSoftmaxWithLoss returns.
struct AdaptiveLogSoftmaxOutput {
  Tensor output;  ///< [N]: the log-probability of each row's target; [] for one row
  Tensor loss;    ///< []: the mean of -output
};

/// The log-probabilities of n_classes classes, sorted from frequent to rare: the head has a logit
/// for each of the first cutoffs[0] classes and one for each cluster of further classes; cluster i
/// begins at class cutoffs[i]. A cluster's logits are computed for rows whose target it contains,
/// and pass through an inner layer of in_features / div_value^i elements. Parameters: head.weight
/// [cutoffs[0] + clusters, in_features], tail.I.0.weight [inner, in_features], tail.I.1.weight
/// [classes of the cluster, inner]. Grave et al., arXiv 1609.04309.
class AdaptiveLogSoftmaxWithLoss : public Module {
 public:
  using Options = AdaptiveLogSoftmaxOptions;
  /// Makes the layer. Throws an Error unless cutoffs increase from above 0 to below n_classes.
  AdaptiveLogSoftmaxWithLoss(int64_t in_features, int64_t n_classes, std::vector<int64_t> cutoffs,
                             const AdaptiveLogSoftmaxOptions& options = {});
  using Module::forward;
  /// Takes x [N, in_features] and int64 targets [N], or one row [in_features] and a target [].
  /// Targets are read on the host.
  AdaptiveLogSoftmaxOutput forward(const Tensor& x, const Tensor& target);
  using Module::operator();
  /// Calls forward(), with hooks around it.
  AdaptiveLogSoftmaxOutput operator()(const Tensor& x, const Tensor& target);
  /// The log-probabilities of all classes, [N, n_classes], for x [N, in_features].
  Tensor log_prob(const Tensor& x);
  /// The likeliest class of each row of x [N, in_features], int64 [N]; clusters are computed only
  /// for rows whose best logit in the head is that of a cluster.
  Tensor predict(const Tensor& x);

 private:
  Tensor of_targets(const Tensor& x, const Tensor& target);
  Tensor whole_log_prob(const Tensor& head_logits, const Tensor& x);

  int64_t in_features_, n_classes_;
  std::vector<int64_t> bounds_;  // the cutoffs and n_classes

 public:
  Linear& head;
  ModuleListOf<Sequential>& tail;
};

}  // namespace hero::nn

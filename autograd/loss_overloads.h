#pragma once
// Every loss of loss_ops.h, which includes this file, takes its reduction by position, as
// mse_loss(x, y, Reduction::sum), and by name, as mse_loss(x, y, {.reduction = Reduction::sum}).
// Reductions by position are templates where there are options, so that {} stays the options.
#include <functional>

#include <hero/autograd/ops/losses/losses.h>

namespace hero {

/// \name By position
/// \{
template <std::same_as<Reduction> R>
Tensor cross_entropy(const Tensor& x, const Tensor& target, R reduction) {
  return cross_entropy(x, target, CrossEntropyOptions{.reduction = reduction});
}
template <std::same_as<Reduction> R>
Tensor nll_loss(const Tensor& x, const Tensor& target, R reduction) {
  return nll_loss(x, target, NllOptions{.reduction = reduction});
}
template <std::same_as<Reduction> R>
Tensor binary_cross_entropy(const Tensor& x, const Tensor& y, R reduction) {
  return binary_cross_entropy(x, y, BceOptions{.reduction = reduction});
}
template <std::same_as<Reduction> R>
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& y, R reduction) {
  return binary_cross_entropy_with_logits(x, y, BceWithLogitsOptions{.reduction = reduction});
}
template <std::same_as<Reduction> R>
Tensor multi_margin_loss(const Tensor& x, const Tensor& target, R reduction) {
  return multi_margin_loss(x, target, MultiMarginOptions{.reduction = reduction});
}
template <std::same_as<Reduction> R>
Tensor poisson_nll_loss(const Tensor& x, const Tensor& y, R reduction) {
  return poisson_nll_loss(x, y, PoissonNllOptions{.reduction = reduction});
}
template <std::same_as<Reduction> R>
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& y, const Tensor& variance, R reduction) {
  return gaussian_nll_loss(x, y, variance, GaussianNllOptions{.reduction = reduction});
}
template <std::same_as<Reduction> R>
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           R reduction) {
  return triplet_margin_loss(anchor, positive, negative,
                             TripletMarginOptions{.reduction = reduction});
}
/// PyTorch's order of arguments: the reduction before the number.
inline Tensor huber_loss(const Tensor& x, const Tensor& y, Reduction reduction,
                         double delta = 1.0) {
  return huber_loss(x, y, delta, reduction);
}
inline Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, Reduction reduction,
                             double beta = 1.0) {
  return smooth_l1_loss(x, y, beta, reduction);
}
inline Tensor hinge_embedding_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  return hinge_embedding_loss(x, y, 1.0, reduction);
}
/// \}

/// \name By name
/// \{
/// Options of losses that have only a reduction.
struct LossOptions {
  Reduction reduction = Reduction::mean;  ///< none, mean or sum
};
inline Tensor mse_loss(const Tensor& x, const Tensor& y, const LossOptions& options) {
  return mse_loss(x, y, options.reduction);
}
inline Tensor l1_loss(const Tensor& x, const Tensor& y, const LossOptions& options) {
  return l1_loss(x, y, options.reduction);
}
inline Tensor soft_margin_loss(const Tensor& x, const Tensor& y, const LossOptions& options) {
  return soft_margin_loss(x, y, options.reduction);
}
/// Options of huber_loss().
struct HuberOptions {
  Reduction reduction = Reduction::mean;  ///< none, mean or sum
  double delta = 1.0;                     ///< the difference beyond which the loss is linear
};
inline Tensor huber_loss(const Tensor& x, const Tensor& y, const HuberOptions& options) {
  return huber_loss(x, y, options.delta, options.reduction);
}
/// Options of smooth_l1_loss().
struct SmoothL1Options {
  Reduction reduction = Reduction::mean;  ///< none, mean or sum
  double beta = 1.0;                      ///< the difference beyond which the loss is linear
};
inline Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, const SmoothL1Options& options) {
  return smooth_l1_loss(x, y, options.beta, options.reduction);
}
/// Options of losses with a margin.
struct MarginOptions {
  std::optional<double> margin = {};      ///< when absent, the default of the loss
  Reduction reduction = Reduction::mean;  ///< none, mean or sum
};
inline Tensor hinge_embedding_loss(const Tensor& x, const Tensor& y, const MarginOptions& options) {
  return hinge_embedding_loss(x, y, options.margin.value_or(1.0), options.reduction);
}
inline Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& y,
                                  const MarginOptions& options) {
  return margin_ranking_loss(a, b, y, options.margin.value_or(0.0), options.reduction);
}
inline Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& y,
                                    const MarginOptions& options) {
  return cosine_embedding_loss(a, b, y, options.margin.value_or(0.0), options.reduction);
}
/// Options of kl_div().
struct KlDivOptions {
  KlReduction reduction = KlReduction::mean;  ///< none, mean, sum or batchmean
  bool log_target = false;                    ///< true: the target is given as a logarithm, too
};
inline Tensor kl_div(const Tensor& x, const Tensor& y, const KlDivOptions& options) {
  return kl_div(x, y, options.reduction, options.log_target);
}
/// Options of triplet_margin_with_distance_loss().
struct TripletMarginWithDistanceOptions {
  /// The distance of each pair of rows [N, D], as [N]; pairwise_distance() when empty.
  std::function<Tensor(const Tensor& a, const Tensor& b)> distance_function = {};
  double margin = 1.0;  ///< by how much the negative should be farther away
  bool swap = false;  ///< true: take the smaller of the negative's distances to anchor and positive
  Reduction reduction = Reduction::mean;  ///< none, mean or sum
};
/// max(0, d(anchor, positive) - d(anchor, negative) + margin) for a distance d of one's own.
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive,
                                         const Tensor& negative,
                                         const TripletMarginWithDistanceOptions& options = {});
/// bce_with_logits is the short name of binary_cross_entropy_with_logits.
inline Tensor bce_with_logits(const Tensor& x, const Tensor& y,
                              const BceWithLogitsOptions& options) {
  return binary_cross_entropy_with_logits(x, y, options);
}
/// \}

}  // namespace hero

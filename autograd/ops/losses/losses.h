#pragma once
// Losses and distances, as functions without state. Every loss takes its reduction by position, as
// mse_loss(x, y, Reduction::sum), and by name, as mse_loss(x, y, {.reduction = Reduction::sum}).
// Reductions by position are templates where there are options, so that {} stays the options.
#include <functional>
#include <optional>

#include <hero/autograd/tensor.h>

namespace hero {

/// \name Losses
/// Unless a loss says otherwise, x and y are floating and of one shape: shapes that would broadcast
/// are an Error. The result is [], or for Reduction::none a loss for each element or row.
/// \{
/// What a loss returns: the losses of all elements or rows, their mean, or their sum.
enum class Reduction { none, mean, sum };
/// Options of cross_entropy().
struct CrossEntropyOptions {
  Tensor weight = {};                     ///< [C], a weight for each class
  Reduction reduction = Reduction::mean;  ///< none, mean or sum
  int64_t ignore_index = -100;            ///< rows with this target do not count
  double label_smoothing = 0.0;  ///< share of the target's probability that all classes get
};
/// -log softmax(x) at the target class, for logits x [N, C, ...] and int64 targets [N, ...]. The
/// mean divides by the sum of the weights of all targets that are not ignored. Targets of a
/// floating dtype, in x's shape, are probabilities of the classes; the mean then divides by the
/// number of rows.
/// \snippet test_examples_tensors.cpp cross_entropy
Tensor cross_entropy(const Tensor& x, const Tensor& target,
                     const CrossEntropyOptions& options = {});
/// Options of linear_cross_entropy().
struct LinearCrossEntropyOptions {
  Tensor linear_bias = {};                ///< [C], or undefined
  Tensor weight = {};                     ///< [C], a weight for each class, as in cross_entropy()
  Reduction reduction = Reduction::mean;  ///< mean or sum; none is an Error
  int64_t ignore_index = -100;            ///< rows with this target do not count
  double label_smoothing = 0.0;  ///< share of the target's probability that all classes get
  /// Number of rows whose logits are in memory at a time; when absent 2^24 / C on the CPU (at least
  /// 1024, or 256 if weight and bias are frozen), 2^30 / C on a GPU (at least 1024, equal chunks).
  std::optional<int64_t> batch_chunk_size = {};
};
/// cross_entropy(linear(x, weight, linear_bias), target) for rows x [N, K] or [K], int64 targets
/// [N] or [], and weight [C, K]. The logits [N, C] are never in memory as a whole: they are
/// computed for one chunk of rows after the other, and so are, if the operation is recorded, the
/// gradients of x, weight and bias, already in forward; backward only scales them. Floating targets
/// [N, C] or [C] are probabilities; then, and with class weights, backward computes the logits
/// again.
///
/// If the weight consists of boxes of rows of [C, K] (partition.h), as tensor parallelism cuts a
/// vocabulary, it gives the logits of these classes: the ranks of its group combine, for each row,
/// the largest logit, the sum of exponentials and the logit of the target, in float32 for half
/// precision, and every rank gets the loss over all C classes. It is then a collective of the
/// group, in forward and backward; each box is a slice ([note: slices of a rank] in collectives.h),
/// and the exponentials [N, C / ranks] are kept for backward; no bias, class weights or smoothing
/// then.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target,
                            const LinearCrossEntropyOptions& options = {});
/// Options of nll_loss().
struct NllOptions {
  Tensor weight = {};                     ///< [C], a weight for each class
  Reduction reduction = Reduction::mean;  ///< none, mean or sum
  int64_t ignore_index = -100;            ///< rows with this target do not count
};
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target,
                const NllOptions& options = {});
Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
Tensor l1_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
Tensor huber_loss(const Tensor& x, const Tensor& y, double delta = 1.0,
                  Reduction reduction = Reduction::mean);
Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, double beta = 1.0,
                      Reduction reduction = Reduction::mean);
/// Options of binary_cross_entropy().
struct BceOptions {
  Tensor weight = {};                     ///< a weight for each element; broadcasts to x
  Reduction reduction = Reduction::mean;  ///< none, mean or sum
};
/// -(y log x + (1 - y) log(1 - x)), for probabilities x and y in [0, 1]; logarithms are at least
/// -100.
Tensor binary_cross_entropy(const Tensor& x, const Tensor& y, const BceOptions& options = {});
/// Options of binary_cross_entropy_with_logits().
struct BceWithLogitsOptions {
  Tensor weight = {};                     ///< a weight for each element; broadcasts to x
  Tensor pos_weight = {};                 ///< a factor of the term with y; broadcasts to x
  Reduction reduction = Reduction::mean;  ///< none, mean or sum
};
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& y,
                                        const BceWithLogitsOptions& options = {});
/// The short name of binary_cross_entropy_with_logits().
Tensor bce_with_logits(const Tensor& x, const Tensor& y, const Tensor& pos_weight = {},
                       Reduction reduction = Reduction::mean);
/// What kl_div() returns; batchmean is the sum divided by the size of the first dimension.
enum class KlReduction { none, mean, sum, batchmean };
/// y (log y - x), elementwise, for log-probabilities x; with log_target, y is given as a logarithm,
/// too.
Tensor kl_div(const Tensor& x, const Tensor& y, KlReduction reduction = KlReduction::mean,
              bool log_target = false);
/// x if y is 1, and max(0, margin - x) if y is -1.
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& y, double margin = 1.0,
                            Reduction reduction = Reduction::mean);
/// log(1 + exp(-y x)), for y of 1 or -1.
Tensor soft_margin_loss(const Tensor& x, const Tensor& y, Reduction reduction = Reduction::mean);
/// max(0, margin - y (a - b)): a should be above b if y is 1, and below b if y is -1.
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& y, double margin = 0.0,
                           Reduction reduction = Reduction::mean);
/// For rows [N, D] or [D] of a and b: 1 - cos(a, b) if y [N] is 1, and max(0, cos(a, b) - margin)
/// if it is -1.
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& y, double margin = 0.0,
                             Reduction reduction = Reduction::mean);
/// Options of multi_margin_loss().
struct MultiMarginOptions {
  int64_t p = 1;                          ///< exponent, 1 or 2
  double margin = 1.0;                    ///< by how much the right class should win
  Tensor weight = {};                     ///< [C], a weight for each class
  Reduction reduction = Reduction::mean;  ///< none, mean or sum
};
/// The sum over wrong classes of max(0, margin - x_right + x)^p / C, for logits x [N, C] and
/// classes [N].
Tensor multi_margin_loss(const Tensor& x, const Tensor& target,
                         const MultiMarginOptions& options = {});
/// The mean over the last dimension of the binary cross entropy of logits x and labels y of 0 or 1.
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& y, const Tensor& weight = {},
                                   Reduction reduction = Reduction::mean);
/// Options of triplet_margin_loss().
struct TripletMarginOptions {
  double margin = 1.0;  ///< by how much the negative should be farther away
  double p = 2.0;       ///< the p of the distance
  double eps = 1e-6;    ///< added to the differences
  bool swap = false;  ///< true: take the smaller of the negative's distances to anchor and positive
  Reduction reduction = Reduction::mean;  ///< none, mean or sum
};
/// max(0, |anchor - positive| - |anchor - negative| + margin), for rows [.., D].
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options = {});
/// Options of poisson_nll_loss().
struct PoissonNllOptions {
  bool log_input = true;                  ///< true: x is the logarithm of the rate
  bool full = false;                      ///< true: add Stirling's approximation of log y!
  double eps = 1e-8;                      ///< added to the rate before its logarithm
  Reduction reduction = Reduction::mean;  ///< none, mean or sum
};
/// exp(x) - y x, or x - y log(x + eps) if x is the rate itself.
Tensor poisson_nll_loss(const Tensor& x, const Tensor& y, const PoissonNllOptions& options = {});
/// Options of gaussian_nll_loss().
struct GaussianNllOptions {
  bool full = false;                      ///< true: add log(2 pi) / 2
  double eps = 1e-6;                      ///< lower limit of the variance
  Reduction reduction = Reduction::mean;  ///< none, mean or sum
};
/// (log v + (x - y)^2 / v) / 2. The variance v has x's shape, or 1 in one of its dimensions, or
/// lacks the last one (one variance for each sample), or is [].
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& y, const Tensor& variance,
                         const GaussianNllOptions& options = {});
/// The p-norm of a - b + eps over the last dimension; a and b broadcast.
Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p = 2.0, double eps = 1e-6,
                         bool keepdim = false);
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim = 1, double eps = 1e-8);
/// \}

/// \name Multi-label margin and connectionist temporal classification
/// \{
/// The sum over right classes j and wrong classes i of max(0, 1 - (x[j] - x[i])) / C, for logits x
/// [N, C] or [C]; y, of the same shape, contains the right classes, up to the first -1.
Tensor multilabel_margin_loss(const Tensor& x, const Tensor& y,
                              Reduction reduction = Reduction::mean);
/// Options of ctc_loss().
struct CtcOptions {
  int64_t blank = 0;                      ///< the class between labels
  Reduction reduction = Reduction::mean;  ///< mean: the mean of losses divided by target lengths
  bool zero_infinity = false;  ///< true: targets that cannot be aligned cost 0, not infinity
};
/// Connectionist temporal classification: -log of the probability of the targets, summed over all
/// alignments. log_probs is [T, N, C], from log_softmax(), or [T, C]; targets is int64 [N, S], or
/// [sum of lengths] with one target after the other; lengths are int64 [N]. If there is no
/// alignment, there is no gradient. Graves et al., ICML 2006.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcOptions& options = {});
/// \}

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
/// max(0, d(anchor, positive) - d(anchor, negative) + margin) for a distance d that the options
/// give.
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

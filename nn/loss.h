#pragma once
// Losses as modules. The functions in <hero/autograd/ops/nn/nn.h>, whose option structs these take,
// say more about formulas, shapes and errors. The prediction is the first argument:
//
//   nn::CrossEntropyLoss loss({.label_smoothing = 0.1});
//   loss(model(x), target).backward();
#include <hero/autograd/ops/losses/losses.h>
#include <hero/nn/module.h>

namespace hero::nn {

/// The common base of losses of a prediction and a target.
class Loss : public Module {
 public:
  using Module::forward;
  /// The loss of prediction x: of shape [], or of the shape that the reduction says.
  virtual Tensor forward(const Tensor& x, const Tensor& target) = 0;
  using Module::operator();
  /// Calls forward() with the hooks around it.
  Tensor operator()(const Tensor& x, const Tensor& target);

 protected:
  /// Registers a buffer of these values, or an undefined one if values are undefined.
  Tensor& optional_buffer(const std::string& name, const Tensor& values);
};

/// The common base of losses of three tensors.
class Loss3 : public Module {
 public:
  using Module::forward;
  /// The loss; each class says what the three are.
  virtual Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c) = 0;
  using Module::operator();
  /// Calls forward() with the hooks around it.
  Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& c);
};

/// \name Numbers
/// \{
/// The mean of (x - target)^2.
class MSELoss : public Loss {
 public:
  /// Makes the loss; see Reduction for what it does with the losses of single elements.
  explicit MSELoss(Reduction reduction = Reduction::mean) : reduction_(reduction) {}
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  Reduction reduction_;
};
/// The mean of |x - target|.
class L1Loss : public Loss {
 public:
  /// Makes the loss.
  explicit L1Loss(Reduction reduction = Reduction::mean) : reduction_(reduction) {}
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  Reduction reduction_;
};
/// (x - target)^2 / 2 within delta of the target, delta (|x - target| - delta / 2) beyond. Huber,
/// 1964.
class HuberLoss : public Loss {
 public:
  /// Makes the loss. Throws an Error unless delta is positive, when it is called.
  explicit HuberLoss(double delta = 1.0, Reduction reduction = Reduction::mean)
      : delta_(delta), reduction_(reduction) {}
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  double delta_;
  Reduction reduction_;
};
/// HuberLoss divided by its delta, which is called beta here. Girshick, arXiv 1504.08083.
class SmoothL1Loss : public Loss {
 public:
  /// Makes the loss.
  explicit SmoothL1Loss(double beta = 1.0, Reduction reduction = Reduction::mean)
      : beta_(beta), reduction_(reduction) {}
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  double beta_;
  Reduction reduction_;
};
/// The negative log likelihood of counts under Poisson distributions; see poisson_nll_loss().
class PoissonNLLLoss : public Loss {
 public:
  using Options = PoissonNllOptions;
  /// Makes the loss.
  explicit PoissonNLLLoss(const PoissonNllOptions& options = {}) : options_(options) {}
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  PoissonNllOptions options_;
};
/// The negative log likelihood of the target under normal distributions; the arguments are
/// prediction, target and variance. See gaussian_nll_loss().
class GaussianNLLLoss : public Loss3 {
 public:
  using Options = GaussianNllOptions;
  /// Makes the loss.
  explicit GaussianNLLLoss(const GaussianNllOptions& options = {}) : options_(options) {}
  using Loss3::forward;
  Tensor forward(const Tensor& x, const Tensor& target, const Tensor& variance) override;

 private:
  GaussianNllOptions options_;
};
/// \}

/// \name Classes and probabilities. Weights are buffers, "weight" and "pos_weight".
/// \{
/// -log of the softmax of the logits at the target class; see cross_entropy().
class CrossEntropyLoss : public Loss {
 public:
  using Options = CrossEntropyOptions;
  /// Makes the loss.
  explicit CrossEntropyLoss(const CrossEntropyOptions& options = {});
  using Loss::forward;
  /// Takes logits [N, C, ..], and as the target classes int64 [N, ..] or probabilities [N, C, ..].
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  CrossEntropyOptions options_;
  Tensor& weight_;
};
/// -x at the target class, of log-probabilities x [N, C, ..] and classes int64 [N, ..].
class NLLLoss : public Loss {
 public:
  using Options = NllOptions;
  /// Makes the loss.
  explicit NLLLoss(const NllOptions& options = {});
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  NllOptions options_;
  Tensor& weight_;
};
/// The binary cross entropy of probabilities x with probabilities as the target.
class BCELoss : public Loss {
 public:
  using Options = BceOptions;
  /// Makes the loss.
  explicit BCELoss(const BceOptions& options = {});
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  BceOptions options_;
  Tensor& weight_;
};
/// The binary cross entropy of logits x with probabilities as the target.
class BCEWithLogitsLoss : public Loss {
 public:
  using Options = BceWithLogitsOptions;
  /// Makes the loss.
  explicit BCEWithLogitsLoss(const BceWithLogitsOptions& options = {});
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  BceWithLogitsOptions options_;
  Tensor &weight_, &pos_weight_;
};
/// Connectionist temporal classification of log-probabilities [T, N, C] or [T, C], see ctc_loss().
class CTCLoss : public Module {
 public:
  using Options = CtcOptions;
  /// Makes the loss.
  explicit CTCLoss(const CtcOptions& options = {}) : options_(options) {}
  using Module::forward;
  Tensor forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                 const Tensor& target_lengths);
  using Module::operator();
  /// Calls forward(), with hooks around it.
  Tensor operator()(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                    const Tensor& target_lengths);

 private:
  CtcOptions options_;
};
/// target (log target - x), of log-probabilities x; with log_target, the target is a logarithm too.
class KLDivLoss : public Loss {
 public:
  /// Makes the loss.
  explicit KLDivLoss(KlReduction reduction = KlReduction::mean, bool log_target = false)
      : reduction_(reduction), log_target_(log_target) {}
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  KlReduction reduction_;
  bool log_target_;
};
/// \}

/// \name Margins
/// \{
/// x where the target is 1, max(0, margin - x) where it is -1.
class HingeEmbeddingLoss : public Loss {
 public:
  /// Makes the loss.
  explicit HingeEmbeddingLoss(double margin = 1.0, Reduction reduction = Reduction::mean)
      : margin_(margin), reduction_(reduction) {}
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  double margin_;
  Reduction reduction_;
};
/// log(1 + exp(-target x)), for targets 1 and -1.
class SoftMarginLoss : public Loss {
 public:
  /// Makes the loss.
  explicit SoftMarginLoss(Reduction reduction = Reduction::mean) : reduction_(reduction) {}
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  Reduction reduction_;
};
/// The hinge loss of many classes; see multi_margin_loss().
class MultiMarginLoss : public Loss {
 public:
  using Options = MultiMarginOptions;
  /// Makes the loss.
  explicit MultiMarginLoss(const MultiMarginOptions& options = {});
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  MultiMarginOptions options_;
  Tensor& weight_;
};
/// The hinge between right and wrong classes, see multilabel_margin_loss().
class MultiLabelMarginLoss : public Loss {
 public:
  /// Makes the loss.
  explicit MultiLabelMarginLoss(Reduction reduction = Reduction::mean) : reduction_(reduction) {}
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  Reduction reduction_;
};
/// The mean of BCEWithLogitsLoss over the classes of each sample.
class MultiLabelSoftMarginLoss : public Loss {
 public:
  using Options = BceOptions;
  /// Makes the loss.
  explicit MultiLabelSoftMarginLoss(const BceOptions& options = {});
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  Reduction reduction_;
  Tensor& weight_;
};
/// max(0, margin - target (a - b)): the arguments are a, b and a target of 1 or -1, which says that
/// a should be above or below b.
class MarginRankingLoss : public Loss3 {
 public:
  /// Makes the loss.
  explicit MarginRankingLoss(double margin = 0.0, Reduction reduction = Reduction::mean)
      : margin_(margin), reduction_(reduction) {}
  using Loss3::forward;
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& target) override;

 private:
  double margin_;
  Reduction reduction_;
};
/// 1 - cos(a, b) where the target is 1, max(0, cos(a, b) - margin) where it is -1; the arguments
/// are a, b and the target.
class CosineEmbeddingLoss : public Loss3 {
 public:
  /// Makes the loss.
  explicit CosineEmbeddingLoss(double margin = 0.0, Reduction reduction = Reduction::mean)
      : margin_(margin), reduction_(reduction) {}
  using Loss3::forward;
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& target) override;

 private:
  double margin_;
  Reduction reduction_;
};
/// max(0, d(anchor, positive) - d(anchor, negative) + margin), with the distance d; see
/// triplet_margin_loss().
class TripletMarginLoss : public Loss3 {
 public:
  using Options = TripletMarginOptions;
  /// Makes the loss.
  explicit TripletMarginLoss(const TripletMarginOptions& options = {}) : options_(options) {}
  using Loss3::forward;
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) override;

 private:
  TripletMarginOptions options_;
};
/// The same with a distance of one's own; see triplet_margin_with_distance_loss().
class TripletMarginWithDistanceLoss : public Loss3 {
 public:
  using Options = TripletMarginWithDistanceOptions;
  /// Makes the loss.
  explicit TripletMarginWithDistanceLoss(const TripletMarginWithDistanceOptions& options = {})
      : options_(options) {}
  using Loss3::forward;
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) override {
    return triplet_margin_with_distance_loss(anchor, positive, negative, options_);
  }

 private:
  TripletMarginWithDistanceOptions options_;
};
/// \}

/// \name Distances
/// \{
/// The cosine of the angle between a and b along dimension `dim`. It is no loss, but has the same
/// form.
class CosineSimilarity : public Loss {
 public:
  /// Makes the module; eps is the lower limit of the lengths that are divided by.
  explicit CosineSimilarity(int64_t dim = 1, double eps = 1e-8) : dim_(dim), eps_(eps) {}
  using Loss::forward;
  Tensor forward(const Tensor& a, const Tensor& b) override;

 private:
  int64_t dim_;
  double eps_;
};
/// The p-norm of a - b + eps along the last dimension.
class PairwiseDistance : public Loss {
 public:
  /// Makes the module; with keepdim the last dimension stays, with size 1.
  explicit PairwiseDistance(double p = 2.0, double eps = 1e-6, bool keepdim = false)
      : p_(p), eps_(eps), keepdim_(keepdim) {}
  using Loss::forward;
  Tensor forward(const Tensor& a, const Tensor& b) override;

 private:
  double p_, eps_;
  bool keepdim_;
};
/// \}

}  // namespace hero::nn

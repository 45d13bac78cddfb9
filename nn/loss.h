#pragma once
// Losses as modules. The functions in <hero/autograd/ops/losses/losses.h>, whose option structs
// these take, say more about formulas, shapes and errors. The prediction is the first argument:
//
//   nn::CrossEntropyLoss loss({.label_smoothing = 0.1});
//   loss(model(x), target).backward();
#include <tuple>
#include <type_traits>

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

/// A loss that is a function of prediction and target, and of numbers that its constructor is
/// given: the class of huber_loss(x, target, delta, reduction) is derived from LossWith<double,
/// Reduction>::Of<huber_loss>.
template <class... Given>
struct LossWith {
  /// The module of a function of two tensors.
  template <Tensor (*Function)(const Tensor&, const Tensor&, Given...)>
  class Of : public Loss {
   public:
    using Loss::forward;
    Tensor forward(const Tensor& x, const Tensor& target) override {
      return std::apply([&](Given... given) { return Function(x, target, given...); }, given_);
    }

   protected:
    /// Keeps what the function is given beside the tensors.
    explicit Of(Given... given) : given_(given...) {}

   private:
    std::tuple<Given...> given_;
  };

  /// The module of a function of three tensors.
  template <Tensor (*Function)(const Tensor&, const Tensor&, const Tensor&, Given...)>
  class Of3 : public Loss3 {
   public:
    using Loss3::forward;
    Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c) override {
      return std::apply([&](Given... given) { return Function(a, b, c, given...); }, given_);
    }

   protected:
    /// Keeps what the function is given beside the tensors.
    explicit Of3(Given... given) : given_(given...) {}

   private:
    std::tuple<Given...> given_;
  };
};

/// A loss that is a function of prediction and target, and of options: the class of
/// cross_entropy(x, target, options) is derived from
/// LossBy<CrossEntropyOptions>::Of<cross_entropy>. Tensors among the options, which are weights,
/// become buffers with their names: these, and not the tensors given, follow the module to other
/// dtypes and devices.
template <class O>
struct LossBy {
  /// The module of a function of two tensors.
  template <Tensor (*Function)(const Tensor&, const Tensor&, const O&)>
  class Of : public Loss {
   public:
    using Options = O;
    /// Makes the loss.
    explicit Of(const O& options = {}) : options_(options) {
      if constexpr (requires { options.weight; })
        weight_ = &optional_buffer("weight", options.weight);
      if constexpr (requires { options.pos_weight; })
        pos_weight_ = &optional_buffer("pos_weight", options.pos_weight);
    }
    using Loss::forward;
    Tensor forward(const Tensor& x, const Tensor& target) override {
      O options = options_;
      if constexpr (requires { options.weight; }) options.weight = *weight_;
      if constexpr (requires { options.pos_weight; }) options.pos_weight = *pos_weight_;
      return Function(x, target, options);
    }

   private:
    O options_;
    Tensor *weight_ = nullptr, *pos_weight_ = nullptr;
  };

  /// The module of a function of three tensors, whose options have no tensors.
  template <Tensor (*Function)(const Tensor&, const Tensor&, const Tensor&, const O&)>
  class Of3 : public Loss3 {
   public:
    using Options = O;
    /// Makes the loss.
    explicit Of3(const O& options = {}) : options_(options) {}
    using Loss3::forward;
    Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c) override {
      return Function(a, b, c, options_);
    }

   private:
    O options_;
  };
};

/// \name Numbers
/// \{
/// The mean of (x - target)^2.
class MSELoss : public LossWith<Reduction>::Of<mse_loss> {
 public:
  /// Makes the loss; see Reduction for what it does with the losses of single elements.
  explicit MSELoss(Reduction reduction = Reduction::mean) : Of(reduction) {}
};
/// The mean of |x - target|.
class L1Loss : public LossWith<Reduction>::Of<l1_loss> {
 public:
  /// Makes the loss.
  explicit L1Loss(Reduction reduction = Reduction::mean) : Of(reduction) {}
};
/// (x - target)^2 / 2 within delta of the target, delta (|x - target| - delta / 2) beyond. Huber,
/// 1964.
class HuberLoss : public LossWith<double, Reduction>::Of<huber_loss> {
 public:
  /// Makes the loss. Throws an Error unless delta is positive, when it is called.
  explicit HuberLoss(double delta = 1.0, Reduction reduction = Reduction::mean)
      : Of(delta, reduction) {}
};
/// HuberLoss divided by its delta, which is called beta here. Girshick, arXiv 1504.08083.
class SmoothL1Loss : public LossWith<double, Reduction>::Of<smooth_l1_loss> {
 public:
  /// Makes the loss.
  explicit SmoothL1Loss(double beta = 1.0, Reduction reduction = Reduction::mean)
      : Of(beta, reduction) {}
};
/// The negative log likelihood of counts under Poisson distributions; see poisson_nll_loss().
class PoissonNLLLoss : public LossBy<PoissonNllOptions>::Of<poisson_nll_loss> {
 public:
  using Of::Of;
};
/// The negative log likelihood of the target under normal distributions; the arguments are
/// prediction, target and variance. See gaussian_nll_loss().
class GaussianNLLLoss : public LossBy<GaussianNllOptions>::Of3<gaussian_nll_loss> {
 public:
  using Of3::Of3;
};
/// \}

/// \name Classes and probabilities. Weights are buffers, "weight" and "pos_weight".
/// \{
/// -log of the softmax of the logits at the target class; see cross_entropy(). It takes logits
/// [N, C, ..], and as the target classes int64 [N, ..] or probabilities [N, C, ..].
class CrossEntropyLoss : public LossBy<CrossEntropyOptions>::Of<cross_entropy> {
 public:
  using Of::Of;
};
/// -x at the target class, of log-probabilities x [N, C, ..] and classes int64 [N, ..].
class NLLLoss : public LossBy<NllOptions>::Of<nll_loss> {
 public:
  using Of::Of;
};
/// The binary cross entropy of probabilities x with probabilities as the target.
class BCELoss : public LossBy<BceOptions>::Of<binary_cross_entropy> {
 public:
  using Of::Of;
};
/// The binary cross entropy of logits x with probabilities as the target.
class BCEWithLogitsLoss
    : public LossBy<BceWithLogitsOptions>::Of<binary_cross_entropy_with_logits> {
 public:
  using Of::Of;
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
class KLDivLoss : public LossWith<KlReduction, bool>::Of<kl_div> {
 public:
  /// Makes the loss.
  explicit KLDivLoss(KlReduction reduction = KlReduction::mean, bool log_target = false)
      : Of(reduction, log_target) {}
};
/// \}

/// \name Margins
/// \{
/// x where the target is 1, max(0, margin - x) where it is -1.
class HingeEmbeddingLoss : public LossWith<double, Reduction>::Of<hinge_embedding_loss> {
 public:
  /// Makes the loss.
  explicit HingeEmbeddingLoss(double margin = 1.0, Reduction reduction = Reduction::mean)
      : Of(margin, reduction) {}
};
/// log(1 + exp(-target x)), for targets 1 and -1.
class SoftMarginLoss : public LossWith<Reduction>::Of<soft_margin_loss> {
 public:
  /// Makes the loss.
  explicit SoftMarginLoss(Reduction reduction = Reduction::mean) : Of(reduction) {}
};
/// The hinge loss of many classes; see multi_margin_loss().
class MultiMarginLoss : public LossBy<MultiMarginOptions>::Of<multi_margin_loss> {
 public:
  using Of::Of;
};
/// The hinge between right and wrong classes, see multilabel_margin_loss().
class MultiLabelMarginLoss : public LossWith<Reduction>::Of<multilabel_margin_loss> {
 public:
  /// Makes the loss.
  explicit MultiLabelMarginLoss(Reduction reduction = Reduction::mean) : Of(reduction) {}
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
class MarginRankingLoss : public LossWith<double, Reduction>::Of3<margin_ranking_loss> {
 public:
  /// Makes the loss.
  explicit MarginRankingLoss(double margin = 0.0, Reduction reduction = Reduction::mean)
      : Of3(margin, reduction) {}
};
/// 1 - cos(a, b) where the target is 1, max(0, cos(a, b) - margin) where it is -1; the arguments
/// are a, b and the target.
class CosineEmbeddingLoss : public LossWith<double, Reduction>::Of3<cosine_embedding_loss> {
 public:
  /// Makes the loss.
  explicit CosineEmbeddingLoss(double margin = 0.0, Reduction reduction = Reduction::mean)
      : Of3(margin, reduction) {}
};
/// max(0, d(anchor, positive) - d(anchor, negative) + margin), with the distance d; see
/// triplet_margin_loss().
class TripletMarginLoss : public LossBy<TripletMarginOptions>::Of3<triplet_margin_loss> {
 public:
  using Of3::Of3;
};
/// The same with a distance of one's own; see triplet_margin_with_distance_loss().
class TripletMarginWithDistanceLoss
    : public LossBy<TripletMarginWithDistanceOptions>::Of3<triplet_margin_with_distance_loss> {
 public:
  using Of3::Of3;
};
/// \}

/// \name Distances
/// \{
/// The cosine of the angle between a and b along dimension `dim`. It is no loss, but has the same
/// form.
class CosineSimilarity : public LossWith<int64_t, double>::Of<cosine_similarity> {
 public:
  /// Makes the module; eps is the lower limit of the lengths that are divided by.
  explicit CosineSimilarity(int64_t dim = 1, double eps = 1e-8) : Of(dim, eps) {}
};
/// The p-norm of a - b + eps along the last dimension.
class PairwiseDistance : public LossWith<double, double, bool>::Of<pairwise_distance> {
 public:
  /// Makes the module; with keepdim the last dimension stays, with size 1.
  explicit PairwiseDistance(double p = 2.0, double eps = 1e-6, bool keepdim = false)
      : Of(p, eps, keepdim) {}
};
/// \}

}  // namespace hero::nn

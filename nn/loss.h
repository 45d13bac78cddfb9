#pragma once
// Losses as modules; formulas, shapes and errors stand at the functions in
// <hero/autograd/nn_ops.h>, whose option structs these take. Call them with the prediction first:
//
//   nn::CrossEntropyLoss loss({.label_smoothing = 0.1});
//   loss(model(x), target).backward();
#include <hero/autograd/nn_ops.h>
#include <hero/nn/module.h>

namespace hero::nn {

/// A loss of a prediction and a target.
class Loss : public Module {
 public:
  using Module::forward;
  virtual Tensor forward(const Tensor& x, const Tensor& target) = 0;
  using Module::operator();
  /// forward with hooks around it.
  Tensor operator()(const Tensor& x, const Tensor& target);

 protected:
  /// A buffer of these values, or an undefined one.
  Tensor& optional_buffer(const std::string& name, const Tensor& values);
};

/// A loss of three tensors.
class Loss3 : public Module {
 public:
  using Module::forward;
  virtual Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c) = 0;
  using Module::operator();
  /// forward with hooks around it.
  Tensor operator()(const Tensor& a, const Tensor& b, const Tensor& c);
};

/// \name Numbers
/// \{
class MSELoss : public Loss {
 public:
  explicit MSELoss(Reduction reduction = Reduction::mean) : reduction_(reduction) {}
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  Reduction reduction_;
};
class L1Loss : public Loss {
 public:
  explicit L1Loss(Reduction reduction = Reduction::mean) : reduction_(reduction) {}
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  Reduction reduction_;
};
class HuberLoss : public Loss {
 public:
  explicit HuberLoss(double delta = 1.0, Reduction reduction = Reduction::mean)
      : delta_(delta), reduction_(reduction) {}
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  double delta_;
  Reduction reduction_;
};
class SmoothL1Loss : public Loss {
 public:
  explicit SmoothL1Loss(double beta = 1.0, Reduction reduction = Reduction::mean)
      : beta_(beta), reduction_(reduction) {}
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  double beta_;
  Reduction reduction_;
};
class PoissonNLLLoss : public Loss {
 public:
  using Options = PoissonNllOptions;
  explicit PoissonNLLLoss(const PoissonNllOptions& options = {}) : options_(options) {}
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  PoissonNllOptions options_;
};
/// Prediction, target, variance.
class GaussianNLLLoss : public Loss3 {
 public:
  using Options = GaussianNllOptions;
  explicit GaussianNLLLoss(const GaussianNllOptions& options = {}) : options_(options) {}
  using Loss3::forward;
  Tensor forward(const Tensor& x, const Tensor& target, const Tensor& variance) override;

 private:
  GaussianNllOptions options_;
};
/// \}

/// \name Classes and probabilities. Weights are buffers: "weight", "pos_weight".
/// \{
class CrossEntropyLoss : public Loss {
 public:
  using Options = CrossEntropyOptions;
  explicit CrossEntropyLoss(const CrossEntropyOptions& options = {});
  using Loss::forward;
  /// Scores [N, C, ..]; classes int64 [N, ..] or probabilities [N, C, ..].
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  CrossEntropyOptions options_;
  Tensor& weight_;
};
class NLLLoss : public Loss {
 public:
  using Options = NllOptions;
  explicit NLLLoss(const NllOptions& options = {});
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  NllOptions options_;
  Tensor& weight_;
};
class BCELoss : public Loss {
 public:
  using Options = BceOptions;
  explicit BCELoss(const BceOptions& options = {});
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  BceOptions options_;
  Tensor& weight_;
};
class BCEWithLogitsLoss : public Loss {
 public:
  using Options = BceWithLogitsOptions;
  explicit BCEWithLogitsLoss(const BceWithLogitsOptions& options = {});
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  BceWithLogitsOptions options_;
  Tensor &weight_, &pos_weight_;
};
class KLDivLoss : public Loss {
 public:
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
class HingeEmbeddingLoss : public Loss {
 public:
  explicit HingeEmbeddingLoss(double margin = 1.0, Reduction reduction = Reduction::mean)
      : margin_(margin), reduction_(reduction) {}
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  double margin_;
  Reduction reduction_;
};
class SoftMarginLoss : public Loss {
 public:
  explicit SoftMarginLoss(Reduction reduction = Reduction::mean) : reduction_(reduction) {}
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  Reduction reduction_;
};
class MultiMarginLoss : public Loss {
 public:
  using Options = MultiMarginOptions;
  explicit MultiMarginLoss(const MultiMarginOptions& options = {});
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  MultiMarginOptions options_;
  Tensor& weight_;
};
class MultiLabelSoftMarginLoss : public Loss {
 public:
  using Options = BceOptions;
  explicit MultiLabelSoftMarginLoss(const BceOptions& options = {});
  using Loss::forward;
  Tensor forward(const Tensor& x, const Tensor& target) override;

 private:
  Reduction reduction_;
  Tensor& weight_;
};
/// First, second, sign.
class MarginRankingLoss : public Loss3 {
 public:
  explicit MarginRankingLoss(double margin = 0.0, Reduction reduction = Reduction::mean)
      : margin_(margin), reduction_(reduction) {}
  using Loss3::forward;
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& target) override;

 private:
  double margin_;
  Reduction reduction_;
};
/// First, second, sign.
class CosineEmbeddingLoss : public Loss3 {
 public:
  explicit CosineEmbeddingLoss(double margin = 0.0, Reduction reduction = Reduction::mean)
      : margin_(margin), reduction_(reduction) {}
  using Loss3::forward;
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& target) override;

 private:
  double margin_;
  Reduction reduction_;
};
/// Anchor, positive, negative.
class TripletMarginLoss : public Loss3 {
 public:
  using Options = TripletMarginOptions;
  explicit TripletMarginLoss(const TripletMarginOptions& options = {}) : options_(options) {}
  using Loss3::forward;
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) override;

 private:
  TripletMarginOptions options_;
};
/// \}

/// \name Distances
/// \{
class CosineSimilarity : public Loss {
 public:
  explicit CosineSimilarity(int64_t dim = 1, double eps = 1e-8) : dim_(dim), eps_(eps) {}
  using Loss::forward;
  Tensor forward(const Tensor& a, const Tensor& b) override;

 private:
  int64_t dim_;
  double eps_;
};
class PairwiseDistance : public Loss {
 public:
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

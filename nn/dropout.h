#pragma once
// Dropout: in training, it zeroes elements at random and scales the others by 1 / (1 - p); in
// evaluation, it does nothing. Srivastava et al., JMLR 15, 2014.
#include <hero/autograd/ops/nn/nn.h>
#include <hero/nn/module.h>

namespace hero::nn {

/// Zeroes each element of x by itself with probability p; x has any shape.
class Dropout : public Module {
 public:
  /// Makes the layer. Throws an Error unless p lies in [0, 1].
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& x) override { return dropout(x, p_, training()); }
  std::string extra_repr() const override;

 private:
  double p_;
};

/// Zeroes whole channels of x [N, C, L] or [C, L].
class Dropout1d : public Module {
 public:
  /// Makes the layer. Throws an Error unless p lies in [0, 1].
  explicit Dropout1d(double p = 0.5);
  Tensor forward(const Tensor& x) override { return dropout1d(x, p_, training()); }
  std::string extra_repr() const override;

 private:
  double p_;
};

/// Zeroes whole channels of x [N, C, H, W] or [C, H, W].
class Dropout2d : public Module {
 public:
  /// Makes the layer. Throws an Error unless p lies in [0, 1].
  explicit Dropout2d(double p = 0.5);
  Tensor forward(const Tensor& x) override { return dropout2d(x, p_, training()); }
  std::string extra_repr() const override;

 private:
  double p_;
};

/// Zeroes whole channels of x [N, C, D, H, W] or [C, D, H, W].
class Dropout3d : public Module {
 public:
  /// Makes the layer. Throws an Error unless p is in [0, 1].
  explicit Dropout3d(double p = 0.5);
  Tensor forward(const Tensor& x) override { return dropout3d(x, p_, training()); }
  std::string extra_repr() const override;

 private:
  double p_;
};

/// Dropout that keeps mean 0 and variance 1 after selu. Klambauer et al., arXiv 1706.02515.
class AlphaDropout : public Module {
 public:
  /// Makes the layer. Throws an Error unless p is in [0, 1].
  explicit AlphaDropout(double p = 0.5);
  Tensor forward(const Tensor& x) override { return alpha_dropout(x, p_, training()); }
  std::string extra_repr() const override;

 private:
  double p_;
};

/// AlphaDropout of whole channels of x [N, C, ..].
class FeatureAlphaDropout : public Module {
 public:
  /// Makes the layer. Throws an Error unless p is in [0, 1].
  explicit FeatureAlphaDropout(double p = 0.5);
  Tensor forward(const Tensor& x) override { return feature_alpha_dropout(x, p_, training()); }
  std::string extra_repr() const override;

 private:
  double p_;
};

}  // namespace hero::nn

#pragma once
// Dropout: in training, zeroes at random and scales what stays by 1 / (1 - p); in evaluation,
// nothing. Srivastava et al., JMLR 15, 2014.
#include <hero/autograd/nn_ops.h>
#include <hero/nn/module.h>

namespace hero::nn {

/// Single elements; x of any shape. An Error unless p is in [0, 1].
class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& x) override { return dropout(x, p_, training()); }
  std::string extra_repr() const override;

 private:
  double p_;
};

/// Whole channels of x [N, C, L] or [C, L].
class Dropout1d : public Module {
 public:
  explicit Dropout1d(double p = 0.5);
  Tensor forward(const Tensor& x) override { return dropout1d(x, p_, training()); }
  std::string extra_repr() const override;

 private:
  double p_;
};

/// Whole channels of x [N, C, H, W] or [C, H, W].
class Dropout2d : public Module {
 public:
  explicit Dropout2d(double p = 0.5);
  Tensor forward(const Tensor& x) override { return dropout2d(x, p_, training()); }
  std::string extra_repr() const override;

 private:
  double p_;
};

}  // namespace hero::nn

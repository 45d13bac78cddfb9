#pragma once
// Activations as modules. The functions in <hero/autograd/ops.h> and <hero/autograd/ops/nn/nn.h>
// say more about each formula. x may have any shape unless the text says otherwise.
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/nn/module.h>

namespace hero::nn {

/// \name Without options
/// \{
/// max(0, x), elementwise.
class ReLU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return relu(x); }
};
/// min(max(0, x), 6), elementwise.
class ReLU6 : public Module {
 public:
  Tensor forward(const Tensor& x) override { return relu6(x); }
};
/// ELU with fixed constants: scale * x, or scale * alpha (exp(x) - 1) if x is negative. Klambauer
/// et al., arXiv 1706.02515.
class SELU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return selu(x); }
};
/// x sigmoid(x), also called swish. Hendrycks and Gimpel, arXiv 1606.08415.
class SiLU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return silu(x); }
};
/// x tanh(softplus(x)). Misra, arXiv 1908.08681.
class Mish : public Module {
 public:
  Tensor forward(const Tensor& x) override { return mish(x); }
};
/// 1 / (1 + exp(-x)).
class Sigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override { return sigmoid(x); }
};
/// log(1 / (1 + exp(-x))).
class LogSigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override { return logsigmoid(x); }
};
/// min(max(0, x + 3), 6) / 6, a sigmoid of straight lines.
class Hardsigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override { return hardsigmoid(x); }
};
/// x hardsigmoid(x). Howard et al., arXiv 1905.02244.
class Hardswish : public Module {
 public:
  Tensor forward(const Tensor& x) override { return hardswish(x); }
};
/// tanh(x).
class Tanh : public Module {
 public:
  Tensor forward(const Tensor& x) override { return tanh(x); }
};
/// x - tanh(x).
class Tanhshrink : public Module {
 public:
  Tensor forward(const Tensor& x) override { return tanhshrink(x); }
};
/// x / (1 + |x|).
class Softsign : public Module {
 public:
  Tensor forward(const Tensor& x) override { return softsign(x); }
};
/// \}

/// \name With options
/// \{
/// x Phi(x), with the normal distribution function Phi. Hendrycks and Gimpel, arXiv 1606.08415.
class GELU : public Module {
 public:
  /// Makes the layer; Gelu::tanh approximates Phi by a hyperbolic tangent.
  explicit GELU(Gelu approximate = Gelu::erf) : approximate_(approximate) {}
  Tensor forward(const Tensor& x) override { return gelu(x, approximate_); }
  std::string extra_repr() const override;

 private:
  Gelu approximate_;
};
/// x, or negative_slope * x if x is negative.
class LeakyReLU : public Module {
 public:
  /// Makes the layer with this slope for negative x.
  explicit LeakyReLU(Scalar negative_slope = 0.01) : slope_(negative_slope) {}
  Tensor forward(const Tensor& x) override { return leaky_relu(x, slope_.real()); }
  std::string extra_repr() const override;

 private:
  Scalar slope_;
};
/// LeakyReLU with random slopes: in training, one from [lower, upper) for each element, in
/// evaluation, their mean. Xu et al., arXiv 1505.00853.
class RReLU : public Module {
 public:
  /// Makes the layer with these limits of the slope.
  explicit RReLU(double lower = 1.0 / 8.0, double upper = 1.0 / 3.0)
      : lower_(lower), upper_(upper) {}
  Tensor forward(const Tensor& x) override { return rrelu(x, lower_, upper_, training()); }
  std::string extra_repr() const override;

 private:
  double lower_, upper_;
};
/// x, or alpha (exp(x) - 1) if x is negative. Clevert et al., arXiv 1511.07289.
class ELU : public Module {
 public:
  /// Makes the layer; -alpha is its limit for small x.
  explicit ELU(Scalar alpha = 1.0) : alpha_(alpha) {}
  Tensor forward(const Tensor& x) override { return elu(x, alpha_.real()); }
  std::string extra_repr() const override;

 private:
  Scalar alpha_;
};
/// x, or alpha (exp(x / alpha) - 1) if x is negative. Barron, arXiv 1704.07483.
class CELU : public Module {
 public:
  /// Makes the layer; -alpha is its limit for small x.
  explicit CELU(Scalar alpha = 1.0) : alpha_(alpha) {}
  Tensor forward(const Tensor& x) override { return celu(x, alpha_.real()); }
  std::string extra_repr() const override;

 private:
  Scalar alpha_;
};
/// x limited to [min_val, max_val].
class Hardtanh : public Module {
 public:
  /// Makes the layer with these limits.
  explicit Hardtanh(Scalar min_val = -1.0, Scalar max_val = 1.0) : low_(min_val), high_(max_val) {}
  Tensor forward(const Tensor& x) override { return hardtanh(x, low_.real(), high_.real()); }
  std::string extra_repr() const override;

 private:
  Scalar low_, high_;
};
/// log(1 + exp(beta x)) / beta, a smooth ReLU; x itself if beta x is above threshold.
class Softplus : public Module {
 public:
  /// Makes the layer.
  explicit Softplus(Scalar beta = 1.0, Scalar threshold = 20.0)
      : beta_(beta), threshold_(threshold) {}
  Tensor forward(const Tensor& x) override { return softplus(x, beta_.real(), threshold_.real()); }
  std::string extra_repr() const override;

 private:
  Scalar beta_, threshold_;
};
/// x - lambda, x + lambda or 0, if x is above lambda, below -lambda or between the two.
class Softshrink : public Module {
 public:
  /// Makes the layer with this lambda.
  explicit Softshrink(Scalar lambda = 0.5) : lambda_(lambda) {}
  Tensor forward(const Tensor& x) override { return softshrink(x, lambda_.real()); }
  std::string extra_repr() const override;

 private:
  Scalar lambda_;
};
/// x, or 0 if x lies in [-lambda, lambda].
class Hardshrink : public Module {
 public:
  /// Makes the layer with this lambda.
  explicit Hardshrink(Scalar lambda = 0.5) : lambda_(lambda) {}
  Tensor forward(const Tensor& x) override { return hardshrink(x, lambda_.real()); }
  std::string extra_repr() const override;

 private:
  Scalar lambda_;
};
/// x if it is above threshold, else value.
class Threshold : public Module {
 public:
  /// Makes the layer.
  Threshold(Scalar threshold, Scalar value) : threshold_(threshold), value_(value) {}
  Tensor forward(const Tensor& x) override {
    return hero::threshold(x, threshold_.real(), value_.real());
  }
  std::string extra_repr() const override;

 private:
  Scalar threshold_, value_;
};
/// x, or weight * x if x is negative, with a learnt weight [num_parameters]: one slope for all
/// channels, or one for each channel of dimension 1. He et al., arXiv 1502.01852.
class PReLU : public Module {
 public:
  /// Makes the layer; all slopes start at `init`.
  explicit PReLU(int64_t num_parameters = 1, double init = 0.25);
  Tensor forward(const Tensor& x) override { return prelu(x, weight); }
  std::string extra_repr() const override;

  Tensor& weight;
};
/// a sigmoid(b), where a and b are the two halves of x along dimension `dim`, whose size is halved.
/// Dauphin et al., arXiv 1612.08083.
class GLU : public Module {
 public:
  /// Makes the layer. Negative dimensions count from the end.
  explicit GLU(int64_t dim = -1) : dim_(dim) {}
  Tensor forward(const Tensor& x) override { return glu(x, dim_); }
  std::string extra_repr() const override;

 private:
  int64_t dim_;
};
/// exp(x_i) / sum_j exp(x_j) along dimension `dim`.
class Softmax : public Module {
 public:
  /// Makes the layer. Negative dimensions count from the end.
  explicit Softmax(int64_t dim) : dim_(dim) {}
  Tensor forward(const Tensor& x) override { return softmax(x, dim_); }
  std::string extra_repr() const override;

 private:
  int64_t dim_;
};
/// Softmax over the channels of images x [N, C, H, W] or [C, H, W].
class Softmax2d : public Module {
 public:
  Tensor forward(const Tensor& x) override;
};
/// The logarithm of Softmax, computed without overflow.
class LogSoftmax : public Module {
 public:
  /// Makes the layer. Negative dimensions count from the end.
  explicit LogSoftmax(int64_t dim) : dim_(dim) {}
  Tensor forward(const Tensor& x) override { return log_softmax(x, dim_); }
  std::string extra_repr() const override;

 private:
  int64_t dim_;
};
/// The softmax of -x.
class Softmin : public Module {
 public:
  /// Makes the layer. Negative dimensions count from the end.
  explicit Softmin(int64_t dim) : dim_(dim) {}
  Tensor forward(const Tensor& x) override { return softmin(x, dim_); }
  std::string extra_repr() const override;

 private:
  int64_t dim_;
};
/// \}

}  // namespace hero::nn

#pragma once
// Activations as modules; formulas stand at the functions in <hero/autograd/ops.h> and
// <hero/autograd/nn_ops.h>. x may have any shape unless said otherwise.
#include <hero/autograd/nn_ops.h>
#include <hero/nn/module.h>

namespace hero::nn {

/// \name Without options
/// \{
class ReLU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return relu(x); }
};
class ReLU6 : public Module {
 public:
  Tensor forward(const Tensor& x) override { return relu6(x); }
};
class SELU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return selu(x); }
};
class SiLU : public Module {
 public:
  Tensor forward(const Tensor& x) override { return silu(x); }
};
class Mish : public Module {
 public:
  Tensor forward(const Tensor& x) override { return mish(x); }
};
class Sigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override { return sigmoid(x); }
};
class LogSigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override { return logsigmoid(x); }
};
class Hardsigmoid : public Module {
 public:
  Tensor forward(const Tensor& x) override { return hardsigmoid(x); }
};
class Hardswish : public Module {
 public:
  Tensor forward(const Tensor& x) override { return hardswish(x); }
};
class Tanh : public Module {
 public:
  Tensor forward(const Tensor& x) override { return tanh(x); }
};
class Tanhshrink : public Module {
 public:
  Tensor forward(const Tensor& x) override { return tanhshrink(x); }
};
class Softsign : public Module {
 public:
  Tensor forward(const Tensor& x) override { return softsign(x); }
};
/// \}

/// \name With options
/// \{
class GELU : public Module {
 public:
  explicit GELU(Gelu approximate = Gelu::erf) : approximate_(approximate) {}
  Tensor forward(const Tensor& x) override { return gelu(x, approximate_); }
  std::string extra_repr() const override;

 private:
  Gelu approximate_;
};
class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : slope_(negative_slope) {}
  Tensor forward(const Tensor& x) override { return leaky_relu(x, slope_); }
  std::string extra_repr() const override;

 private:
  double slope_;
};
class ELU : public Module {
 public:
  explicit ELU(double alpha = 1.0) : alpha_(alpha) {}
  Tensor forward(const Tensor& x) override { return elu(x, alpha_); }
  std::string extra_repr() const override;

 private:
  double alpha_;
};
class CELU : public Module {
 public:
  explicit CELU(double alpha = 1.0) : alpha_(alpha) {}
  Tensor forward(const Tensor& x) override { return celu(x, alpha_); }
  std::string extra_repr() const override;

 private:
  double alpha_;
};
class Hardtanh : public Module {
 public:
  explicit Hardtanh(double min_val = -1.0, double max_val = 1.0) : low_(min_val), high_(max_val) {}
  Tensor forward(const Tensor& x) override { return hardtanh(x, low_, high_); }
  std::string extra_repr() const override;

 private:
  double low_, high_;
};
class Softplus : public Module {
 public:
  explicit Softplus(double beta = 1.0, double threshold = 20.0)
      : beta_(beta), threshold_(threshold) {}
  Tensor forward(const Tensor& x) override { return softplus(x, beta_, threshold_); }
  std::string extra_repr() const override;

 private:
  double beta_, threshold_;
};
class Softshrink : public Module {
 public:
  explicit Softshrink(double lambda = 0.5) : lambda_(lambda) {}
  Tensor forward(const Tensor& x) override { return softshrink(x, lambda_); }
  std::string extra_repr() const override;

 private:
  double lambda_;
};
class Hardshrink : public Module {
 public:
  explicit Hardshrink(double lambda = 0.5) : lambda_(lambda) {}
  Tensor forward(const Tensor& x) override { return hardshrink(x, lambda_); }
  std::string extra_repr() const override;

 private:
  double lambda_;
};
class Threshold : public Module {
 public:
  Threshold(double threshold, double value) : threshold_(threshold), value_(value) {}
  Tensor forward(const Tensor& x) override { return hero::threshold(x, threshold_, value_); }
  std::string extra_repr() const override;

 private:
  double threshold_, value_;
};
/// weight [num_parameters]: one slope for all, or one a channel of dimension 1; starts at `init`.
class PReLU : public Module {
 public:
  explicit PReLU(int64_t num_parameters = 1, double init = 0.25);
  Tensor forward(const Tensor& x) override { return prelu(x, weight); }
  std::string extra_repr() const override;

  Tensor& weight;
};
/// The size of `dim` halves.
class GLU : public Module {
 public:
  explicit GLU(int64_t dim = -1) : dim_(dim) {}
  Tensor forward(const Tensor& x) override { return glu(x, dim_); }
  std::string extra_repr() const override;

 private:
  int64_t dim_;
};
class Softmax : public Module {
 public:
  explicit Softmax(int64_t dim) : dim_(dim) {}
  Tensor forward(const Tensor& x) override { return softmax(x, dim_); }
  std::string extra_repr() const override;

 private:
  int64_t dim_;
};
class LogSoftmax : public Module {
 public:
  explicit LogSoftmax(int64_t dim) : dim_(dim) {}
  Tensor forward(const Tensor& x) override { return log_softmax(x, dim_); }
  std::string extra_repr() const override;

 private:
  int64_t dim_;
};
class Softmin : public Module {
 public:
  explicit Softmin(int64_t dim) : dim_(dim) {}
  Tensor forward(const Tensor& x) override { return softmin(x, dim_); }
  std::string extra_repr() const override;

 private:
  int64_t dim_;
};
/// \}

}  // namespace hero::nn

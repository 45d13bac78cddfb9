#include <hero/nn/activation.h>
#include <hero/nn/module/repr.h>

namespace hero::nn {

using repr::text;

std::string GELU::extra_repr() const {
  return std::string("approximate='") + (approximate_ == Gelu::erf ? "none" : "tanh") + "'";
}
std::string LeakyReLU::extra_repr() const { return "negative_slope=" + text(slope_); }
std::string RReLU::extra_repr() const {
  return "lower=" + text(lower_) + ", upper=" + text(upper_);
}
std::string ELU::extra_repr() const { return "alpha=" + text(alpha_); }
std::string CELU::extra_repr() const { return "alpha=" + text(alpha_); }
std::string Hardtanh::extra_repr() const {
  return "min_val=" + text(low_) + ", max_val=" + text(high_);
}
std::string Softplus::extra_repr() const {
  return "beta=" + text(beta_) + ", threshold=" + text(threshold_);
}
std::string Softshrink::extra_repr() const { return text(lambda_); }
std::string Hardshrink::extra_repr() const { return text(lambda_); }
std::string Threshold::extra_repr() const {
  return "threshold=" + text(threshold_) + ", value=" + text(value_);
}

PReLU::PReLU(int64_t num_parameters, double init)
    : weight(parameter("weight", {num_parameters}, init::constant(init))) {}
std::string PReLU::extra_repr() const { return "num_parameters=" + std::to_string(weight.numel()); }

std::string GLU::extra_repr() const { return "dim=" + std::to_string(dim_); }
std::string Softmax::extra_repr() const { return "dim=" + std::to_string(dim_); }
Tensor Softmax2d::forward(const Tensor& x) {
  check(x.ndim() == 3 || x.ndim() == 4, "Softmax2d: expected [N, C, H, W] or [C, H, W], got ",
        x.shape());
  return softmax(x, -3);
}
std::string LogSoftmax::extra_repr() const { return "dim=" + std::to_string(dim_); }
std::string Softmin::extra_repr() const { return "dim=" + std::to_string(dim_); }

}  // namespace hero::nn

#pragma once
// This header has the optimizers Adam and AdamW and their options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

struct AdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool amsgrad = false;
  bool maximize = false;

  void check_values() const;
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("beta1", self.betas[0]);
    visit("beta2", self.betas[1]);
    visit("eps", self.eps);
    visit("weight_decay", self.weight_decay);
    visit("amsgrad", self.amsgrad);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<AdamOptions>;

/// Running mean and mean square, corrected for their start at zero: m = beta1 m + (1 - beta1) g; v
/// = beta2 v + (1 - beta2) g^2; p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps),
/// with g += weight_decay * p before. amsgrad: the largest v so far in place of v. Kingma and Ba,
/// arXiv 1412.6980; amsgrad: Reddi, Kale and Kumar, arXiv 1904.09237.
class Adam : public OptimizerOf<AdamOptions> {
 public:
  explicit Adam(const std::vector<Tensor>& params, const AdamOptions& options = {})
      : OptimizerOf("adam", params, options) {}
  explicit Adam(const std::vector<Group>& groups) : OptimizerOf("adam", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
};

struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool amsgrad = false;
  bool maximize = false;

  void check_values() const;
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("beta1", self.betas[0]);
    visit("beta2", self.betas[1]);
    visit("eps", self.eps);
    visit("weight_decay", self.weight_decay);
    visit("amsgrad", self.amsgrad);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<AdamWOptions>;

/// Adam with the decay taken from the parameter instead of added to the gradient: p *= 1 - lr *
/// weight_decay, then Adam's step without decay. Loshchilov and Hutter, arXiv 1711.05101.
/// \snippet test_examples_optim.cpp AdamW
class AdamW : public OptimizerOf<AdamWOptions> {
 public:
  explicit AdamW(const std::vector<Tensor>& params, const AdamWOptions& options = {})
      : OptimizerOf("adamw", params, options) {}
  explicit AdamW(const std::vector<Group>& groups) : OptimizerOf("adamw", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
};

}  // namespace hero::optim

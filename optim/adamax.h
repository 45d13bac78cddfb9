#pragma once
// This header has the optimizer Adamax and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

struct AdamaxOptions {
  double lr = 2e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool maximize = false;

  void check_values() const;
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("beta1", self.betas[0]);
    visit("beta2", self.betas[1]);
    visit("eps", self.eps);
    visit("weight_decay", self.weight_decay);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<AdamaxOptions>;

/// Adam by the largest gradient: m = beta1 m + (1 - beta1) g; u = max(beta2 u, |g| + eps); p -= lr
/// / (1 - beta1^t) * m / u, with g += weight_decay * p before. Kingma and Ba, arXiv 1412.6980,
/// section 7.
class Adamax : public OptimizerOf<AdamaxOptions> {
 public:
  explicit Adamax(const std::vector<Tensor>& params, const AdamaxOptions& options = {})
      : OptimizerOf("adamax", params, options) {}
  explicit Adamax(const std::vector<Group>& groups) : OptimizerOf("adamax", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
};

}  // namespace hero::optim

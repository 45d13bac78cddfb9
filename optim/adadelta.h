#pragma once
// This header has the optimizer Adadelta and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

struct AdadeltaOptions {
  double lr = 1.0;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0.0;
  bool maximize = false;

  void check_values() const;
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("rho", self.rho);
    visit("eps", self.eps);
    visit("weight_decay", self.weight_decay);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<AdadeltaOptions>;

/// Steps in the units of the parameter: v = rho v + (1 - rho) g^2; d = sqrt(u + eps) / sqrt(v +
/// eps) * g; u = rho u + (1 - rho) d^2; p -= lr * d, with g += weight_decay * p before. Zeiler,
/// arXiv 1212.5701.
class Adadelta : public OptimizerOf<AdadeltaOptions> {
 public:
  explicit Adadelta(const std::vector<Tensor>& params, const AdadeltaOptions& options = {})
      : OptimizerOf("adadelta", params, options) {}
  explicit Adadelta(const std::vector<Group>& groups) : OptimizerOf("adadelta", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
};

}  // namespace hero::optim

#pragma once
// This header has the optimizer Adagrad and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

struct AdagradOptions {
  double lr = 0.01;
  double lr_decay = 0.0;
  double weight_decay = 0.0;
  double initial_accumulator_value = 0.0;
  double eps = 1e-10;
  bool maximize = false;

  void check_values() const;
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("lr_decay", self.lr_decay);
    visit("weight_decay", self.weight_decay);
    visit("initial_accumulator_value", self.initial_accumulator_value);
    visit("eps", self.eps);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<AdagradOptions>;

/// Steps shrink with all the gradients seen: s += g^2; p -= lr / (1 + (t - 1) lr_decay) * g /
/// (sqrt(s) + eps), with g += weight_decay * p before. Duchi, Hazan and Singer, JMLR 12, 2011.
class Adagrad : public OptimizerOf<AdagradOptions> {
 public:
  explicit Adagrad(const std::vector<Tensor>& params, const AdagradOptions& options = {})
      : OptimizerOf("adagrad", params, options) {}
  explicit Adagrad(const std::vector<Group>& groups) : OptimizerOf("adagrad", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  double first_value(int group, const char* name) const override;
  void update(int group, State& state, const Array& grad) override;
};

}  // namespace hero::optim

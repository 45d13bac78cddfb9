#pragma once
// This header has the optimizer RMSprop and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

struct RMSpropOptions {
  double lr = 0.01;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum = 0.0;
  bool centered = false;
  bool maximize = false;

  void check_values() const;
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("alpha", self.alpha);
    visit("eps", self.eps);
    visit("weight_decay", self.weight_decay);
    visit("momentum", self.momentum);
    visit("centered", self.centered);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<RMSpropOptions>;

/// Steps are scaled by a running mean square: v = alpha v + (1 - alpha) g^2; centered: m = alpha m
/// + (1 - alpha) g and v - m^2 under the root; q = g / (sqrt(v) + eps); with momentum b = momentum
/// * b + q and q = b; p -= lr * q. Tieleman and Hinton, lecture 6.5 of "Neural networks for machine
/// learning", 2012; centered: Graves, arXiv 1308.0850.
class RMSprop : public OptimizerOf<RMSpropOptions> {
 public:
  explicit RMSprop(const std::vector<Tensor>& params, const RMSpropOptions& options = {})
      : OptimizerOf("rmsprop", params, options) {}
  explicit RMSprop(const std::vector<Group>& groups) : OptimizerOf("rmsprop", groups) {}

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
};

}  // namespace hero::optim

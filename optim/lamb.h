#pragma once
// This header has the optimizer LAMB and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

struct LAMBOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-6;
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
extern template class OptimizerOf<LAMBOptions>;

/// Adam's direction at the length of the parameter, for large batches. Two stages: d = m / (1 -
/// beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay * p; then p -= lr * (|p| / |d|) * d
/// with Euclidean norms over the whole parameter, whose quotient counts as 1 where either is 0. You
/// et al., arXiv 1904.00962.
///
/// Norms stay on the parameters' device, and the host does not wait for them. The bits do not
/// depend on whether parameters are cut into shards: their owners make one collective a step. A
/// step holds the directions of all shards, and those of whole parameters up to 16 MiB (on the CPU
/// 64 KiB) and one more.
class LAMB : public OptimizerOf<LAMBOptions> {
 public:
  explicit LAMB(const std::vector<Tensor>& params, const LAMBOptions& options = {})
      : OptimizerOf("lamb", params, options) {}
  explicit LAMB(const std::vector<Group>& groups) : OptimizerOf("lamb", groups) {}

  void step() override;

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
  void batch_done() override;
  void step_done() override;

 private:
  // A parameter that has its direction, in state.scratch, and is not stepped yet.
  struct Directed {
    State* state;
    double lr;
  };
  void take(std::vector<Directed> directed);

  core::UpdateBatch steps_;  // along directions
  std::vector<Directed> directed_;
  int64_t held_ = 0;  // bytes of directions of whole parameters among them
};

}  // namespace hero::optim

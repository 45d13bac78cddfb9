#pragma once
// This header has the optimizer LAMB and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Options of LAMB.
struct LAMBOptions {
  double lr = 1e-3;  ///< learning rate
  /// Decay of the running means of g and of g^2, each in [0, 1).
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-6;          ///< added to the root that is divided by
  double weight_decay = 0.0;  ///< this times the parameter is added to its direction d
  bool maximize = false;      ///< true: steps go up the gradient, which maximises the loss

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
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

/// Takes Adam's direction, scaled to the length of the parameter, for training with large batches.
/// A step has two stages: d = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay *
/// p; then p -= lr * (|p| / |d|) * d with Euclidean norms over the whole parameter; the quotient
/// counts as 1 if either norm is 0. You et al., arXiv 1904.00962.
///
/// Norms stay on the parameters' device, and the host does not wait for them. The bits do not
/// depend on whether parameters are cut into shards: the owners of shards make one collective in
/// each step. During a step, memory holds the directions d of all shards, and of whole parameters
/// up to 16 MiB (64 KiB on the CPU) plus those of one parameter.
class LAMB : public OptimizerOf<LAMBOptions> {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  explicit LAMB(const std::vector<Tensor>& params, const LAMBOptions& options = {})
      : OptimizerOf("lamb", params, options) {}
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  explicit LAMB(const std::vector<Group>& groups) : OptimizerOf("lamb", groups) {}

  void step() override;

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
  const char* no_pages() const override {
    return "it steps by norms of whole parameters, for which all states are in memory";
  }
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

#pragma once
// This header has the optimizer Adafactor and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Options of Adafactor.
struct AdafactorOptions {
  double lr = 1e-2;  ///< upper limit of the relative step size
  /// After t steps the newest squared gradient has the weight t^beta2_decay.
  double beta2_decay = -0.8;
  /// Lower limit of the root mean square that is divided by; 0: the dtype's machine epsilon.
  double eps1 = 0.0;
  /// Lower limit of the parameter's root mean square, by which a step is scaled.
  double eps2 = 1e-3;
  /// Upper limit of the root mean square of an update; a larger update is scaled down.
  double d = 1.0;
  /// Decoupled decay: the parameter is multiplied by 1 - lr * weight_decay.
  double weight_decay = 0.0;
  bool maximize = false;  ///< true: steps go up the gradient, which maximises the loss

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
  static void each(auto& self, auto&& visit) {
    visit("lr", self.lr);
    visit("beta2_decay", self.beta2_decay);
    visit("eps1", self.eps1);
    visit("eps2", self.eps2);
    visit("d", self.d);
    visit("weight_decay", self.weight_decay);
    visit("maximize", self.maximize);
  }
};
extern template class OptimizerOf<AdafactorOptions>;

/// Adam with far less memory: of the second moments of a matrix, only the means of its rows and of
/// its columns are kept, and v = row column^T / mean(row). A step is as large as the parameter's
/// root mean square times min(lr, 1 / sqrt(t)). Vectors keep all their second moments; in a
/// parameter of more than two dimensions, the last two are those of matrices. Shazeer and Stern,
/// arXiv 1804.04235; torch.optim.Adafactor.
///
/// A step needs whole parameters. For shards (fully_shard(), ZeRO) each rank gathers the values and
/// the gradient of one parameter at a time, in two collectives, computes the step with them and
/// keeps its part, so the bits are those of one process; the means are those of the whole, on every
/// rank. Under DDP each rank steps all parameters. Half precision is computed in float32.
class Adafactor : public OptimizerOf<AdafactorOptions> {
 public:
  /// Makes an optimizer for these parameters, all with the same options.
  explicit Adafactor(const std::vector<Tensor>& params, const AdafactorOptions& options = {})
      : OptimizerOf("adafactor", params, options) {}
  /// Makes an optimizer for groups of parameters, each group with options of its own.
  explicit Adafactor(const std::vector<Group>& groups) : OptimizerOf("adafactor", groups) {}

  bool is_number(const std::string& state) const override;

 protected:
  std::vector<const char*> array_names(int group) const override;
  Shape array_shape(const char* name, const Shape& param) const override;
  void update(int group, State& state, const Array& grad) override;
};

}  // namespace hero::optim

#pragma once
// This header has the optimizer Adafactor and its options.
#include <hero/optim/optimizer.h>

namespace hero::optim {

struct AdafactorOptions {
  double lr = 1e-2;
  double beta2_decay = -0.8;  ///< the newest gradient counts as step^beta2_decay
  double eps1 = 0.0;          ///< the least rms that is divided by; 0: the machine epsilon
  double eps2 = 1e-3;         ///< the least rms of a parameter that a step is measured by
  double d = 1.0;             ///< the largest rms of an update, which is shortened to it
  double weight_decay = 0.0;
  bool maximize = false;

  void check_values() const;
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

/// Adam without its memory: of the second moments of a matrix only the means of rows and of columns
/// are kept, v = row column^T / mean(row); a step is as large as the parameter's rms times min(lr,
/// 1 / sqrt(step)). Vectors keep whole moments; of more dimensions the last two are a matrix's.
/// Shazeer and Stern, arXiv 1804.04235; torch.optim.Adafactor.
///
/// A step needs whole parameters: of shards (fully_shard(), ZeRO) it is an Error; under DDP each
/// rank steps all. Halves are computed in float32.
class Adafactor : public OptimizerOf<AdafactorOptions> {
 public:
  explicit Adafactor(const std::vector<Tensor>& params, const AdafactorOptions& options = {})
      : OptimizerOf("adafactor", params, options) {}
  explicit Adafactor(const std::vector<Group>& groups) : OptimizerOf("adafactor", groups) {}

  bool is_number(const std::string& state) const override;

 protected:
  std::vector<const char*> array_names(int group) const override;
  Shape array_shape(const char* name, const Shape& param) const override;
  void update(int group, State& state, const Array& grad) override;
};

}  // namespace hero::optim

#pragma once
// Exponential moving averages of parameters. Polyak and Juditsky, 1992; torch.optim.swa_utils.
//
//   optim::EMA ema(model.parameters(), {.decay = 0.999});
//   ... adamw.step(); ema.step();
//   {
//     const optim::EMA::Scope averaged(ema);  // the model has the averages here
//     evaluate(model);
//   }
#include <hero/optim/optimizer.h>

namespace hero::optim {

struct EMAOptions {
  double decay = 0.999;
  /// Of the first steps the decay is (1 + t) / (10 + t) where that is less.
  bool warmup = false;

  void check_values() const;
  static void each(auto& self, auto&& visit) {
    visit("decay", self.decay);
    visit("warmup", self.warmup);
  }
};
extern template class OptimizerOf<EMAOptions>;

/// An average of each parameter, which is no optimizer but has an optimizer's state: e = p at the
/// first step(), then e = decay e + (1 - decay) p. float32 where p is a half. Saved and resumed as
/// an optimizer's states are, by a checkpointer too; of shards each rank averages its own,
/// elementwise, so that the bits are those of the whole. Parameters need no gradient. Buffers are
/// not averaged.
class EMA : public OptimizerOf<EMAOptions> {
 public:
  explicit EMA(const std::vector<Tensor>& params, const EMAOptions& options = {})
      : OptimizerOf("ema", params, options) {}
  explicit EMA(const std::vector<Group>& groups) : OptimizerOf("ema", groups) {}

  /// Parameters and averages change places, and again. Between steps; an Error before the first.
  /// Averages of halves are rounded to them, and what comes back from there is what the parameters
  /// were.
  void swap();
  /// swap() now and again at the end.
  class Scope {
   public:
    explicit Scope(EMA& ema) : ema_(ema) { ema_.swap(); }
    ~Scope() { ema_.swap(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    EMA& ema_;
  };

 protected:
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
  Array gradient_of(int param) const override;

 private:
  std::vector<Array> kept_;  // what the parameters were while they are averages
};

}  // namespace hero::optim

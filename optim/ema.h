#pragma once
// Exponential moving averages of parameters. Polyak and Juditsky, 1992; torch.optim.swa_utils.
//
//   optim::EMA ema(model.parameters(), {.decay = 0.999});
//   ... adamw.step(); ema.step();
//   {
//     const optim::EMA::Scope averaged(ema);  // the model has the averages here
//     evaluate(model);
//   }
#include <optional>

#include <hero/autograd/sharding/replaced_values.h>
#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Options of EMA.
struct EMAOptions {
  double decay = 0.999;  ///< weight of the old average in each step, in [0, 1)
  /// True: step t takes the decay (1 + t) / (10 + t) while that is below `decay`.
  bool warmup = false;
  /// True: all steps weigh alike, whatever `decay` is, which is stochastic weight averaging.
  /// Izmailov et al., arXiv 1803.05407.
  bool equal = false;

  /// Throws an Error that names the option unless every value lies in its range.
  void check_values() const;
  /// Calls visit(name, value) for every option; OptimizerOf reads and writes options by it.
  static void each(auto& self, auto&& visit) {
    visit("decay", self.decay);
    visit("warmup", self.warmup);
    visit("equal", self.equal);
  }
};
extern template class OptimizerOf<EMAOptions>;

/// Keeps an exponential moving average e of each parameter p: e = p at the first step(), then e =
/// decay e + (1 - decay) p. It changes no parameter, but it has the state of an optimizer, and is
/// saved and resumed like one, by a checkpointer too. Averages of parameters of half precision are
/// float32. Each rank averages its own shards elementwise, so the bits are those of whole
/// parameters. Parameters need no gradient. Buffers are not averaged; nn::update_bn() computes
/// those of batch norms for the averages.
class EMA : public OptimizerOf<EMAOptions> {
 public:
  /// Makes averages of these parameters, all with the same options.
  explicit EMA(const std::vector<Tensor>& params, const EMAOptions& options = {})
      : OptimizerOf("ema", params, options) {}
  /// Makes averages of groups of parameters, each group with options of its own.
  explicit EMA(const std::vector<Group>& groups) : OptimizerOf("ema", groups) {}

  /// Exchanges parameters and averages; a second call exchanges them back. Call it between steps;
  /// before the first step it throws an Error. For parameters of half precision the averages are
  /// rounded, and the second call restores the parameters' exact bits. Meanwhile a module may be
  /// evaluated and its averages saved alone (save(), save_pretrained(), dist::save_full()); but it
  /// is an Error to step or load the parameters, which the second call would undo, and to save a
  /// checkpoint, which would have averages in place of what was trained.
  void swap();
  /// Returns averages and options. Throws an Error if a checkpoint is saved while averages and
  /// parameters are exchanged.
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& dict) override;
  /// Calls swap() when it is made, and again when it goes out of scope.
  class Scope {
   public:
    /// Exchanges parameters and averages.
    explicit Scope(EMA& ema) : ema_(ema) { ema_.swap(); }
    ~Scope() { ema_.swap(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    EMA& ema_;
  };

 protected:
  void check_group(const std::vector<Tensor>& params) const override;
  const char* no_master_weights() const override {
    return "averages are in float32 already, and swap() needs all of them; make it beside an "
           "optimizer that has masters or pages";
  }
  std::vector<const char*> array_names(int group) const override;
  void update(int group, State& state, const Array& grad) override;
  bool steps_by_gradients() const override { return false; }
  Array gradient_of(int param) const override;

 private:
  bool swapped() const { return averages_.has_value(); }

  // Averages in the parameters; scratch has their own values.
  std::optional<ReplacedValuesScope> averages_;
};

}  // namespace hero::optim

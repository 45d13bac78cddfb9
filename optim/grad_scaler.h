#pragma once
// Loss scaling for float16, whose smallest numbers are too large for many gradients.
#include <optional>

#include <hero/optim/optimizer.h>

namespace hero::optim {

struct GradScalerOptions {
  double init_scale = 65536.0;
  double growth_factor = 2.0;      ///< > 1
  double backoff_factor = 0.5;     ///< in (0, 1)
  int64_t growth_interval = 2000;  ///< steps without an overflow before the scale grows
  bool enabled = true;             ///< false: scale(), step() and update() do nothing of their own
};

/// Multiplies the loss by a scale, divides the gradients by it again, leaves a step out when one of
/// them overflowed, and lowers the scale then; after growth_interval good steps in a row it is
/// raised. PyTorch's torch.amp.GradScaler; Micikevicius et al., arXiv 1710.03740.
///
///   scaler.scale(loss).backward();
///   scaler.unscale_(adamw);  // only to look at the gradients or to clip them
///   scaler.step(adamw);
///   scaler.update();
///
/// Where parameters are shards, their owners agree on whether one of them found an overflow:
/// unscale_(), or step() without it, is a collective then.
/// float16 parameters need MasterWeights: unscaled in float16 the small gradients would be lost.
/// \snippet test_examples_optim.cpp GradScaler
class GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});

  /// loss * scale, in float32 at least (65536 is infinite in float16).
  Tensor scale(const Tensor& loss) const;
  /// Divides the optimizer's gradients by the scale; once a step.
  void unscale_(Optimizer& optimizer);
  /// optimizer.step() with unscaled gradients if all are finite. True when it stepped.
  bool step(Optimizer& optimizer);
  /// Sets the scale for the next step, from what was found in this one or to `new_scale`.
  void update(std::optional<double> new_scale = {});

  double get_scale() const { return options_.enabled ? scale_ : 1.0; }
  /// Good steps since the scale last changed.
  int64_t growth_tracker() const { return tracker_; }
  const GradScalerOptions& options() const { return options_; }
  bool is_enabled() const { return options_.enabled; }

  /// "scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker".
  StateDict state_dict() const;
  /// An Error that lists what does not fit leaves the scaler as it was.
  void load_state_dict(const StateDict& dict);

 private:
  struct Seen {
    const Optimizer* optimizer;
    bool unscaled = false;
    bool stepped = false;
    bool overflow = false;
  };
  Seen& seen(const Optimizer& optimizer);

  GradScalerOptions options_;
  double scale_;
  int64_t tracker_ = 0;
  std::vector<Seen> seen_;  // since the last update()
};

}  // namespace hero::optim

#pragma once
// Loss scaling for float16, whose smallest numbers are too large for many gradients.
#include <optional>

#include <hero/optim/optimizer.h>

namespace hero::optim {

/// Options of GradScaler.
struct GradScalerOptions {
  double init_scale = 65536.0;  ///< the first scale
  double growth_factor = 2.0;   ///< the scale grows by this factor, which is above 1
  double backoff_factor = 0.5;  ///< the scale shrinks by this factor, in (0, 1), after an overflow
  /// Steps in a row without an overflow after which the scale grows.
  int64_t growth_interval = 2000;
  bool enabled = true;  ///< false: scale() returns the loss, step() steps, update() does nothing
};

/// Multiplies the loss by a scale and divides the gradients by it again. If a gradient overflowed,
/// the step is skipped and the scale is lowered; after growth_interval good steps in a row it is
/// raised. It behaves like torch.amp.GradScaler. Micikevicius et al., arXiv 1710.03740.
///
///   scaler.scale(loss).backward();
///   scaler.unscale_(adamw);  // only to look at the gradients or to clip them
///   scaler.step(adamw);
///   scaler.update();
///
/// If parameters are shards, their owners agree on whether any of them found an overflow;
/// unscale_(), or step() if unscale_() was not called, is then a collective. Parameters in float16
/// need MasterWeights, since small gradients would be lost if they were unscaled in float16.
/// \snippet test_examples_optim.cpp GradScaler
class GradScaler {
 public:
  /// Makes a scaler. Throws an Error unless the options lie in their ranges.
  explicit GradScaler(const GradScalerOptions& options = {});

  /// Returns loss * scale, in float32 or a wider dtype (65536 is infinite in float16).
  Tensor scale(const Tensor& loss) const;
  /// Divides the optimizer's gradients by the scale. Call it at most once in a step.
  void unscale_(Optimizer& optimizer);
  /// Calls optimizer.step() with unscaled gradients, times `factor`, if all of them are finite.
  /// Returns true if it did. Throws an Error if no parameter has a gradient. A factor clips
  /// gradients whose norm is known without unscale_(), which for MasterWeights would make float32
  /// copies of all of them.
  bool step(Optimizer& optimizer, double factor = 1.0);
  /// Sets the scale for the next step, by whether this step overflowed, or to `new_scale`.
  void update(std::optional<double> new_scale = {});

  /// The present scale; 1 if the scaler is not enabled.
  double get_scale() const { return options_.enabled ? scale_ : 1.0; }
  /// The number of good steps since the scale last changed.
  int64_t growth_tracker() const { return tracker_; }
  /// The options that the scaler was made with.
  const GradScalerOptions& options() const { return options_; }
  /// Whether the scaler does anything; see GradScalerOptions::enabled.
  bool is_enabled() const { return options_.enabled; }

  /// The state as named numbers, under PyTorch's names: "scale", "growth_factor", "backoff_factor",
  /// "growth_interval" and "_growth_tracker".
  StateDict state_dict() const;
  /// Restores a state. Throws an Error that lists what does not fit, and then leaves the scaler as
  /// it was.
  void load_state_dict(const StateDict& dict);

 private:
  struct Seen {
    const Optimizer* optimizer;
    bool unscaled = false;
    bool stepped = false;
    bool overflow = false;
    bool none = false;  // no parameter had a gradient
  };
  Seen& seen(const Optimizer& optimizer);

  GradScalerOptions options_;
  double scale_;
  int64_t tracker_ = 0;
  std::vector<Seen> seen_;  // since the last update()
};

}  // namespace hero::optim

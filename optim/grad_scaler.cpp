#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/sharding/gradient_reducer.h>
#include <hero/optim/grad_scaler.h>
#include <hero/optim/rank_groups.h>
#include <hero/optim/state_lookup.h>

namespace hero::optim {

namespace {

void check_values(const GradScalerOptions& o) {
  check(o.init_scale > 0.0 && std::isfinite(o.init_scale),
        "grad_scaler: init_scale must be positive: ", o.init_scale);
  check(o.growth_factor > 1.0 && std::isfinite(o.growth_factor),
        "grad_scaler: growth_factor must be above 1: ", o.growth_factor);
  check(o.backoff_factor > 0.0 && o.backoff_factor < 1.0,
        "grad_scaler: backoff_factor must be in (0, 1): ", o.backoff_factor);
  check(o.growth_interval > 0,
        "grad_scaler: growth_interval must be positive: ", o.growth_interval);
}

// The state of gradients, ordered so that the maximum over several ranks is the state of all.
enum Gradients : int64_t { kNone, kFinite, kOverflowed };

Gradients gradients_of(const Optimizer& optimizer) {
  const auto has_one = [](const std::vector<Tensor>& params) {
    return std::any_of(params.begin(), params.end(),
                       [](const Tensor& param) { return param.grad().defined(); });
  };
  if (!optimizer.gradients_finite()) return kOverflowed;
  // masters have gradients after unscale_() or take_gradients(), the model's parameters before
  return has_one(optimizer.model_parameters()) || has_one(optimizer.parameters()) ? kFinite : kNone;
}

// Whether any gradient is not finite, or there is none, here and with all who hold other parts of
// the parameters or other parameters. All must have scaled by the same.
Gradients agreed_gradients(const Optimizer& optimizer, double scale) {
  declare(optimizer.model_parameters(), [scale] {
    char text[64];
    (void)std::snprintf(text, sizeof(text), "unscale gradients by %.9g", scale);
    return std::string(text);
  });
  const Array found = Array::full({1}, static_cast<int64_t>(gradients_of(optimizer)), kInt64);
  // the model's: masters become shards as late as in the step
  const std::vector<Tensor> params = optimizer.model_parameters();
  for (RankGroup* group : groups_of(params)) {
    if (group) group->largest(found);
  }
  for (RankGroup* others : groups_elsewhere(params)) others->largest(found);
  return static_cast<Gradients>(found.item<int64_t>());
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), scale_(options.init_scale) {
  check_values(options);
}

Tensor GradScaler::scale(const Tensor& loss) const {
  if (!options_.enabled) return loss;
  check(is_floating(loss.dtype()), "grad_scaler: loss is ", loss.dtype(), "; it must be floating");
  return (loss.dtype() == kFloat64 ? loss : loss.to(kFloat32)) * scale_;
}

GradScaler::Seen& GradScaler::seen(const Optimizer& optimizer) {
  for (Seen& entry : seen_) {
    if (entry.optimizer == &optimizer) return entry;
  }
  return seen_.emplace_back(Seen{&optimizer});
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!options_.enabled) return;
  Seen& entry = seen(optimizer);
  check(!entry.stepped, "grad_scaler: unscale_() after step(); call update() first");
  check(!entry.unscaled, "grad_scaler: unscale_() was already called since the last update()");
  const Gradients found = agreed_gradients(optimizer, scale_);
  optimizer.scale_gradients(1.0 / scale_);
  entry.overflow = found == kOverflowed;
  entry.none = found == kNone;
  entry.unscaled = true;
}

bool GradScaler::step(Optimizer& optimizer, double factor) {
  if (!options_.enabled) {
    factor == 1.0 ? optimizer.step() : optimizer.step_scaled(factor);
    return true;
  }
  Seen& entry = seen(optimizer);
  check(!entry.stepped, "grad_scaler: step() was already called since the last update()");
  if (!entry.unscaled) {
    const Gradients found = agreed_gradients(optimizer, scale_);
    entry.overflow = found == kOverflowed;
    entry.none = found == kNone;
  }
  // No good step: it would count towards a larger scale.
  check(!entry.none,
        "grad_scaler: step() finds no gradient: none of the optimizer's parameters has one; call "
        "scale(loss).backward() first, with a loss that depends on them");
  if (!entry.overflow) {
    if (!entry.unscaled) factor /= scale_;
    factor == 1.0 ? optimizer.step() : optimizer.step_scaled(factor);
  }
  entry.stepped = true;
  return !entry.overflow;
}

void GradScaler::update(std::optional<double> new_scale) {
  if (!options_.enabled) return;
  if (new_scale) {
    check(*new_scale > 0.0 && std::isfinite(*new_scale),
          "grad_scaler: the new scale must be positive: ", *new_scale);
    scale_ = *new_scale;
    seen_.clear();
    return;
  }
  check(!seen_.empty(), "grad_scaler: update() before any unscale_() or step()");
  bool overflow = false, good = false;
  for (const Seen& entry : seen_) {
    overflow = overflow || entry.overflow;
    good = good || !entry.none;
  }
  seen_.clear();
  if (overflow) {
    const double lower = scale_ * options_.backoff_factor;
    check(lower >= static_cast<double>(std::numeric_limits<float>::min()),
          "grad_scaler: gradients are not finite at any scale (now ", scale_,
          "); look for the first loss that is not finite");
    scale_ = lower;
    tracker_ = 0;
  } else if (good && ++tracker_ == options_.growth_interval) {
    const double higher = scale_ * options_.growth_factor;
    if (higher <= static_cast<double>(std::numeric_limits<float>::max())) scale_ = higher;
    tracker_ = 0;
  }
}

StateDict GradScaler::state_dict() const {
  return {state_number("scale", scale_), state_number("growth_factor", options_.growth_factor),
          state_number("backoff_factor", options_.backoff_factor),
          state_number("growth_interval", static_cast<double>(options_.growth_interval)),
          state_number("_growth_tracker", static_cast<double>(tracker_))};
}

void GradScaler::load_state_dict(const StateDict& dict) {
  StateLookup lookup("grad_scaler", dict);
  GradScalerOptions options = options_;
  options.init_scale = lookup.number("scale");
  options.growth_factor = lookup.number("growth_factor");
  options.backoff_factor = lookup.number("backoff_factor");
  options.growth_interval = static_cast<int64_t>(lookup.count("growth_interval"));
  const auto tracker = static_cast<int64_t>(lookup.count("_growth_tracker"));
  lookup.finish();
  check_values(options);
  check(tracker < options.growth_interval, "grad_scaler: load_state_dict: _growth_tracker is ",
        tracker, ", not below growth_interval ", options.growth_interval);
  scale_ = options.init_scale;
  options.init_scale = options_.init_scale;
  options_ = options;
  tracker_ = tracker;
}

}  // namespace hero::optim

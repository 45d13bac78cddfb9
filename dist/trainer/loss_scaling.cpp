#include <algorithm>
#include <cmath>

#include <hero/dist/trainer/loss_scaling.h>

namespace hero::dist {

LossScaling::LossScaling(const Config::LossScale& options)
    : scale_(options.fixed > 0.0 ? options.fixed
                                 : std::exp2(static_cast<double>(options.initial_power))),
      left_(options.hysteresis),
      options_(options) {}

void LossScaling::update(bool overflow) {
  if (options_.fixed > 0.0) return;
  if (overflow) {
    good_ = 0;
    if (options_.hysteresis == 1 || left_ == 1) {
      scale_ = std::max(scale_ / 2, options_.least);
    } else {
      --left_;
    }
    return;
  }
  if (options_.consecutive) left_ = options_.hysteresis;
  if (++good_ % options_.window != 0) return;
  if (!options_.consecutive) left_ = options_.hysteresis;
  scale_ *= 2;
}

}  // namespace hero::dist

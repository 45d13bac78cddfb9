#pragma once
// LossScaling: the loss scale of a Config's "fp16"; internal to dist.
#include <cstdint>

#include <hero/dist/config.h>

namespace hero::dist {

/// The factor of a float16 loss, changed as in DeepSpeed (deepspeed/runtime/fp16/loss_scaler.py):
/// halved after `hysteresis` overflows, doubled after `window` steps without an overflow.
class LossScaling {
 public:
  explicit LossScaling(const Config::LossScale& options);

  void update(bool overflow);
  double scale() const { return scale_; }
  /// For checkpoints: scale, hysteresis left, good steps since the last overflow or -1.
  double scale_;
  int64_t left_;
  int64_t good_ = 0;

 private:
  Config::LossScale options_;
};

}  // namespace hero::dist

#pragma once
// LossScaling: the loss scale of a Config's "fp16", for dist's own files.
#include <cstdint>

#include <hero/dist/config.h>

namespace hero::dist {

/// The factor of a float16 loss, as DeepSpeed moves it (deepspeed/runtime/fp16/loss_scaler.py):
/// halved at an overflow once `hysteresis` of them have come, doubled after `window` steps without.
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

#pragma once
// Exercise 19: what an answer is given, and the class that it defines.
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "exercises/support/answer.h"

#include <hero/autograd/autograd.h>

namespace exercise {

/// Scales the loss of a model in float16, and finds the scale itself.
class Scaler {
 public:
  virtual ~Scaler() = default;
  /// What backward begins with instead of the loss: float32, one number.
  virtual hero::Tensor scale(const hero::Tensor& loss) const = 0;
  /// Called after backward: takes the optimizer's step with the true gradients if all of them are
  /// finite, and no step otherwise, and chooses the scale of the next step. Returns whether it
  /// stepped.
  virtual bool step() = 0;
  /// The scale of the next loss.
  virtual double get_scale() const = 0;
};

/// The options of a scaler.
struct ScalerOptions {
  double first = 65536.0;  ///< the first scale
  int64_t interval = 4;    ///< the scale is doubled after so many good steps in a row
};

/// The answer. `parameters` are in float16, and `masters` are their copies in float32, which the
/// optimizer steps. `optimizer_step` takes one step with the masters' gradients.
std::unique_ptr<Scaler> scaler(const std::vector<hero::Tensor>& parameters,
                               const std::vector<hero::Tensor>& masters,
                               const std::function<void()>& optimizer_step,
                               const ScalerOptions& options);

}  // namespace exercise

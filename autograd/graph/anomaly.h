#pragma once
// Finding the operation that produced a NaN.
#include <hero/autograd/tensor.h>

namespace hero {

/// Options of DetectAnomaly.
struct AnomalyOptions {
  bool infinities = false;  ///< true: an infinity from finite numbers is an anomaly, too
};

/// While it lives, the first operation on this thread that produces a NaN throws an Error with the
/// name of the operation, the shapes of its inputs, and the module (PlaceScope) in which it runs;
/// in backward, with the operation whose derivative produced the NaN and the module where this
/// operation was recorded (inside the scope). A NaN in the data that operations are given is an
/// Error at the first operation with a NaN in its result. It costs a pass over every result, and
/// nothing if no scope is open. Writes in place that are not recorded are not checked.
class DetectAnomaly {
 public:
  /// Begins the scope.
  explicit DetectAnomaly(const AnomalyOptions& options = {});
  ~DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

 private:
  unsigned open_scopes_;
  bool infinities_;
};

/// True inside a DetectAnomaly.
bool anomaly_enabled();

}  // namespace hero

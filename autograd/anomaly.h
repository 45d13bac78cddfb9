#pragma once
// Finding the operation that made a NaN.
#include <hero/autograd/tensor.h>

namespace hero {

struct AnomalyOptions {
  bool infinities = false;  ///< an infinity made from finite numbers is an anomaly too
};

/// While it lives, the first operation on this thread that makes a NaN is an Error that names the
/// operation, its input shapes and the module (PlaceScope) it runs in; in backward it names the
/// operation whose derivative made the NaN and the module where that operation was recorded (inside
/// the scope). A NaN that came in from outside is an Error where it first shows in a result. Costs
/// a pass over every result, and nothing when no scope is open. Writes in place that are not
/// recorded are not looked at.
class DetectAnomaly {
 public:
  explicit DetectAnomaly(const AnomalyOptions& options = {});
  ~DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;

 private:
  unsigned watching_;
  bool infinities_;
};

/// True inside a DetectAnomaly.
bool anomaly_enabled();

}  // namespace hero

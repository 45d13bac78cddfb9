#pragma once
// A backend that charges the cost of another backend's calls to the thread's CostMeter.
#include <hero/core/device/backend.h>
#include <hero/core/profile/kernel_cost.h>

namespace hero::core {

/// The meter of this thread, or null; see current_cost_meter().
extern constinit thread_local CostMeter* cost_meter;

/// A backend that charges the cost() of each call, as done at `place`, to the thread's meter, which
/// must not be null, and then runs the call on `inner`. There is one for each `inner`, and it lives
/// as long as the process.
Backend& metered(Backend& inner, KernelPlace place);

}  // namespace hero::core

#pragma once
// A backend that charges the work of another backend's calls to the thread's WorkMeter.
#include <hero/core/device/backend.h>
#include <hero/core/profile/work.h>

namespace hero::core {

/// The meter of this thread, or null; see current_work_meter().
extern constinit thread_local WorkMeter* work_meter;

/// A backend that charges the work() of each call, as done at `place`, to the thread's meter, which
/// must not be null, and then runs the call on `inner`. There is one for each `inner`, and it lives
/// as long as the process.
Backend& metered(Backend& inner, WorkPlace place);

}  // namespace hero::core

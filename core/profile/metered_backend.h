#pragma once
// A backend that tells the thread's WorkMeter what another one is asked for.
#include <hero/core/device/backend.h>
#include <hero/core/profile/work.h>

namespace hero::core {

/// The meter of this thread, or null; see current_work_meter().
extern constinit thread_local WorkMeter* work_meter;

/// `inner` behind one that charges each call of a family to the thread's meter, which there must
/// be, as done at `place`, and then makes it. It lives as long as the process; one for each
/// `inner`.
Backend& metered(Backend& inner, WorkPlace place);

}  // namespace hero::core

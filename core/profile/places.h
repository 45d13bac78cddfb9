#pragma once
// Modules of operations whose derivatives are computed later.
#include <atomic>

namespace hero::core {

/// Whether recorded operations keep the current_place() of their recording, which is then also the
/// place of their derivatives. A profiler sets it; recording then costs a copy of the text.
extern constinit std::atomic<bool> keeps_places;

}  // namespace hero::core

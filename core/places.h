#pragma once
// Modules of operations whose work comes later than their recording.
#include <atomic>

namespace hero::core {

/// Whether recorded operations remember the current_place() of their recording, which is then that
/// of their derivatives' work, too. A profiler sets it; recording costs a copy of the text then.
extern constinit std::atomic<bool> keeps_places;

}  // namespace hero::core

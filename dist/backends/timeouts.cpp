#include <hero/core/error.h>
#include <hero/core/threads/thread_state.h>
#include <hero/dist/backends/timeouts.h>

namespace hero::dist {
namespace {

thread_local Phase current_phase = Phase::step;
[[maybe_unused]] const core::ThreadSlot<Phase> kPhaseSlot([] { return current_phase; },
                                                          [](Phase phase) {
                                                            current_phase = phase;
                                                          });

}  // namespace

double Timeouts::of(Phase phase) const {
  return phase == Phase::join ? join : phase == Phase::checkpoint ? checkpoint : step;
}

std::string Timeouts::text(Phase phase) const {
  constexpr const char* kinds[] = {"", " of joining", " of a checkpoint"};
  return std::string("time-out") + kinds[static_cast<int>(phase)] + " after " +
         detail::number_text(of(phase)) + " s";
}

std::string timeout_advice(Phase phase) {
  constexpr const char* variables[] = {"HERO_TIMEOUT", "HERO_TIMEOUT_JOIN",
                                       "HERO_TIMEOUT_CHECKPOINT"};
  return std::string("; set ") + variables[static_cast<int>(phase)] +
         " to more seconds if they only need longer";
}

PhaseScope::PhaseScope(Phase phase) : before_(current_phase) { current_phase = phase; }
PhaseScope::~PhaseScope() { current_phase = before_; }
Phase PhaseScope::current() { return current_phase; }

}  // namespace hero::dist

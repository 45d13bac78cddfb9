#pragma once
// How long a rank waits for the others: for what, and which time-out that has.
#include <cstdint>
#include <string>

namespace hero::dist {

/// What the ranks are about to do together. `join`: to meet: all that a rank does until its first
/// call is complete, and the making of groups. `checkpoint`: to save or load one. `step`: all else.
enum class Phase : uint8_t { step, join, checkpoint };

/// Seconds that a rank waits in one call of each phase before it gives up.
struct Timeouts {
  double step = 600, join = 600, checkpoint = 600;

  double of(Phase phase) const;
  /// "time-out after 3 s", "time-out of a checkpoint after 3 s".
  std::string text(Phase phase) const;
};

/// What to do about it: "; set HERO_TIMEOUT_JOIN to more seconds if they only need longer".
std::string timeout_advice(Phase phase);

/// While it lives, what this thread begins is of that phase; the innermost counts.
class PhaseScope {
 public:
  explicit PhaseScope(Phase phase);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;
  /// Phase::step outside of any.
  static Phase current();

 private:
  Phase before_;
};

}  // namespace hero::dist

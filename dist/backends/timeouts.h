#pragma once
// Timeouts: how long a rank waits for the other ranks, in each phase of a program.
#include <cstdint>
#include <string>

namespace hero::dist {

/// The phase to which a call belongs. `join`: all calls of a rank until its first one is complete,
/// and calls that make groups. `checkpoint`: calls that save or load a checkpoint. `step`: all
/// others.
enum class Phase : uint8_t { step, join, checkpoint };

/// Seconds that a rank waits in one call of each phase before it gives up.
struct Timeouts {
  double step = 600, join = 600, checkpoint = 600;

  double of(Phase phase) const;
  /// "time-out after 3 s", "time-out of a checkpoint after 3 s".
  std::string text(Phase phase) const;
};

/// Advice for the error of a time-out: "; set HERO_TIMEOUT_JOIN to more seconds if they only need
/// longer".
std::string timeout_advice(Phase phase);

/// While it lives, calls that this thread begins belong to its phase; of nested scopes the
/// innermost one counts.
class PhaseScope {
 public:
  explicit PhaseScope(Phase phase);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;
  /// The phase of the innermost scope of this thread; Phase::step if there is none.
  static Phase current();

 private:
  Phase before_;
};

}  // namespace hero::dist

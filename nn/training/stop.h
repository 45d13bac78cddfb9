#pragma once
// StopSignal: Ctrl-C asks for a stop at the end of the step.

namespace hero::nn {

/// While it lives, SIGINT (Ctrl-C) and SIGTERM no longer end the process but are noted:
///
///   StopSignal stop;
///   while (step < steps) {
///     ... a step
///     if (stop.requested()) { checkpoint.save(step); return stop.exit_code(); }
///   }
///
/// A line on stderr says that the program will stop. A second signal, if it comes more than a tenth
/// of a second after the first, ends the process at once, as it would have without a StopSignal. A
/// process has at most one at a time; the destructor restores the old handlers.
class StopSignal {
 public:
  /// Installs the handlers. Throws an Error if another StopSignal lives.
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// True once a signal has come. Any thread may ask.
  bool requested() const { return signal() != 0; }
  /// The first signal that came; 0 if none did.
  int signal() const;
  /// The exit status for a program that stops, 128 + signal: 130 for Ctrl-C, 143 for SIGTERM; 0 if
  /// no signal came.
  int exit_code() const { return requested() ? 128 + signal() : 0; }
};

}  // namespace hero::nn

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
/// A line on stderr says that the stop is coming; a second signal (later than a tenth of a
/// second after the first) ends the process at once, as it would have without this. One at a time
/// in a process; the old handlers come back with its end.
class StopSignal {
 public:
  /// An Error while another one lives.
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// True once a signal came. Any thread may ask.
  bool requested() const { return signal() != 0; }
  /// The first signal that came; 0: none.
  int signal() const;
  /// What a program that stops returns, 128 + signal: 130 for Ctrl-C, 143 for SIGTERM, 0 for none.
  int exit_code() const { return requested() ? 128 + signal() : 0; }
};

}  // namespace hero::nn

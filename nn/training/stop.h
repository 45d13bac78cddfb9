#pragma once
// StopSignal: Ctrl-C asks for a stop at the end of the step.
#include <atomic>
#include <cstdint>

#include <hero/core/array.h>

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
/// of a second after the first, ends the process at once, as it would have without a StopSignal.
///
/// Several ranks, be they threads or processes, must stop at the same step, while a signal comes to
/// each process at another moment and perhaps only to one. They ask together:
/// `stop.requested(world)`. Ranks that are threads may have one StopSignal each, or one for all: a
/// signal is noted for all that live in the process. The destructor of the last restores the old
/// handlers.
class StopSignal {
 public:
  /// Installs the handlers, unless another StopSignal has.
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// True once a signal has come. Any thread may ask.
  bool requested() const { return signal() != 0; }
  /// True on every rank if a signal has come to one of them, and from then on all of them have
  /// signal() and exit_code() of the first such rank. A small collective of these ranks: all of
  /// them call it after the same step. `Ranks` is dist::Communicator.
  template <class Ranks>
  bool requested(const Ranks& ranks) {
    const Array all = Array::zeros({ranks.size()}, kInt64);
    ranks.all_gather(all, Array::full({1}, int64_t{signal()}, kInt64), {.unit = "stop"});
    for (const int64_t each : all.to_vector<int64_t>()) {
      if (each == 0) continue;
      agreed_ = static_cast<int>(each);
      return true;
    }
    return false;
  }
  /// The first signal that came; 0 if none did.
  int signal() const;
  /// The exit status for a program that stops, 128 + signal: 130 for Ctrl-C, 143 for SIGTERM; 0 if
  /// no signal came.
  int exit_code() const { return requested() ? 128 + signal() : 0; }

 private:
  std::atomic<int> agreed_ = 0;  // the signal by which the ranks stop
};

}  // namespace hero::nn

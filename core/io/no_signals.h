#pragma once
// NoSignals: for threads that the library starts for itself.
#include <csignal>

namespace hero::core {

/// While it lives, threads that the calling thread starts block all signals, so that signals of the
/// process go to the program's own threads.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &previous_);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t previous_ = {};
};

}  // namespace hero::core

#pragma once
// Threads that a library starts for itself.
#include <csignal>

namespace hero::core {

/// Threads that the calling thread starts while it lives take no signals: those of the process are
/// for the program's own threads.
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

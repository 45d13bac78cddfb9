#pragma once
// Calls into NCCL that do not come back.
#include <chrono>

#include <hero/dist/engines/nccl/comm.h>

namespace hero::dist::nccl {

/// Stands around a call of the host that may wait for other ranks: communicators block, since one
/// that does not would start a thread in every group of calls. When a rank has failed, or after the
/// time-out, a thread of the process aborts the communicator, and the call comes back with an
/// error.
class Watch {
 public:
  Watch(const Library& library, ncclComm_t comm, const Terms& terms);
  ~Watch() { end(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  /// The call has come back. True where the communicator was aborted, which is gone then.
  bool end();

 private:
  friend class Watchdog;
  bool in_vain(std::chrono::steady_clock::time_point now) const {
    return deadline_ < now || (terms_.failed && terms_.failed());
  }
  const Library& library_;
  const ncclComm_t comm_;
  const Terms& terms_;
  const std::chrono::steady_clock::time_point deadline_;
  enum class State { open, aborting, aborted, ended } state_ = State::open;
};

}  // namespace hero::dist::nccl

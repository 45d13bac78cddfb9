#pragma once
// The thread of a process that watches for what would wait for ever: calls that do not come back to
// the host, and work on the GPU. What is in vain is aborted, by another thread, since that may
// wait, too.
#include <chrono>
#include <memory>

#include <hero/dist/backends/backend.h>
#include <hero/dist/backends/nccl/comm.h>

namespace hero::dist::nccl {

/// What the thread looks at every 20 ms, until it is in vain or ends.
class Watched {
 public:
  virtual ~Watched() = default;
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 protected:
  using Clock = std::chrono::steady_clock;
  Watched() = default;
  void begin();  ///< when all else is made
  /// Before anything is unmade. True where the communicator was aborted.
  bool end();

 private:
  friend class Watchdog;
  virtual bool in_vain(Clock::time_point now) = 0;
  virtual void abort() = 0;
  /// Whether work of that device (-1: of any) waits for what is not known to come.
  virtual bool holds(int device) const = 0;
  enum class State { open, looked_at, aborting, aborted, ended } state_ = State::ended;
};

/// Stands around a call of the host that may wait for other ranks: communicators block, since one
/// that does not would start a thread in every group of calls. When a rank has failed, or after the
/// time-out of the phase, the communicator is aborted, and the call comes back with an error.
class Watch final : public Watched {
 public:
  Watch(const Library& library, ncclComm_t comm, const Terms& terms, Phase phase);
  ~Watch() override { come_back(); }
  /// The call has come back. True where the communicator was aborted, which is gone then.
  bool come_back() { return end(); }

 private:
  bool in_vain(Clock::time_point now) override;
  void abort() override;
  bool holds(int) const override { return false; }
  const Library& library_;
  const ncclComm_t comm_;
  const Terms& terms_;
  const Clock::time_point deadline_;
};

/// Stands beside a collective for which the rank's stream waits from now on, though it is not known
/// whether all ranks have asked for it. When it is known that they never will, or after the
/// time-out of the call, the communicator is aborted, which frees the stream; the rank's thread
/// hears of it when it confirms the call.
class CallWatch final : public Watched {
 public:
  /// `statement`: of the host's backend, complete when all have asked. `number`: of the call.
  CallWatch(std::shared_ptr<Pending> statement, Comm& comm, uint64_t number);
  ~CallWatch() override { end(); }

 private:
  bool in_vain(Clock::time_point now) override;
  void abort() override { comm_.abort(); }
  bool holds(int device) const override {
    return (device < 0 || comm_.terms().device.index == device) && !statement_->complete();
  }
  const std::shared_ptr<Pending> statement_;
  Comm& comm_;
  const uint64_t number_;
  const Clock::time_point since_ = Clock::now();
};

/// Returns when no stream of that device (-1: of any) waits for a call of which it is not known
/// whether all ranks have asked for it, or will. Any thread.
void wait_until_known(int device);

}  // namespace hero::dist::nccl

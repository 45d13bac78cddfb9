// Calls that are under way, as the rank's program and a profiler see them.
#include <hero/core/profile/observer.h>
#include <hero/dist/communicator.h>
#include <hero/dist/flight_recorder.h>

namespace hero::dist {
namespace {

/// Tells this thread's observer, if the call was observed, that the rank waits while it lives.
class Waiting {
 public:
  explicit Waiting(int64_t call) {
    if (call != 0 && core::observer != nullptr) part_ = core::observer->begin_wait(call);
  }
  ~Waiting() {
    if (part_ != 0 && core::observer != nullptr) core::observer->end_part(part_);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  int64_t part_ = 0;
};

void tell_complete(int64_t call) {
  if (call != 0 && core::observer != nullptr) core::observer->complete_call(call);
}

}  // namespace

void Work::record(FlightEntry entry) { flight_ = std::move(entry); }

void Work::record_end() {
  if (flight_.recorder && !pending_->records_end()) flight_.recorder->complete(flight_.number);
}

void Work::wait() {
  if (pending_) {
    {
      const Waiting waiting(observed_);
      if (flight_.recorder) flight_.recorder->await(flight_.number);
      pending_->wait();
    }
    tell_complete(observed_);  // after the wait has ended, so that it lies inside the call
    record_end();
  }
  pending_.reset();
}

bool Work::test() {
  if (pending_ && !pending_->test()) return false;
  if (pending_) {
    tell_complete(observed_);
    record_end();
  }
  pending_.reset();
  return true;
}

}  // namespace hero::dist

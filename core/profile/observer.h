#pragma once
// The interface by which all components report to a profiler of their thread: parts of the program,
// calls to other ranks, and waiting for them. Without a profiler each of these costs one
// comparison.
#include <cstdint>
#include <string_view>

namespace hero::core {

/// A call to other ranks that begins.
struct ObservedCall {
  std::string_view op;    ///< "all_gather", ..
  std::string_view axis;  ///< name of the group
  std::string_view unit;  ///< the name of the data that it sends, or ""
  int64_t bytes = 0;      ///< bytes that this rank sends, as Traffic counts them
};

/// Observes one thread. The numbers that it returns are above 0 and differ from those of all other
/// observers that the thread ever had; numbers of others are ignored.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Called when a part of the program begins on this thread; `step` is true for the step of an
  /// optimizer.
  virtual int64_t begin_part(std::string_view name, bool step) = 0;
  virtual void end_part(int64_t part) noexcept = 0;
  virtual int64_t begin_call(const ObservedCall& call) = 0;
  /// Called when the thread begins to wait for the call; end_part() ends it.
  virtual int64_t begin_wait(int64_t call) = 0;
  /// Called when the thread knows that the call is complete, perhaps more than once.
  virtual void complete_call(int64_t call) noexcept = 0;
};

/// The observer of this thread, or null.
extern constinit thread_local Observer* observer;

}  // namespace hero::core

namespace hero {

/// While it lives, this part of the program has a name, such as "data" or "evaluation", in the
/// Profiler that is open on this thread; without one it costs one comparison. Parts and operations
/// inside it are its children. PyTorch calls it record_function.
class ProfileScope {
 public:
  /// Begins the part.
  explicit ProfileScope(std::string_view name) : ProfileScope(name, false) {}
  ~ProfileScope() {
    if (part_ != 0 && core::observer != nullptr) [[unlikely]]
      core::observer->end_part(part_);
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

  /// A part that is a whole training step, which Profiler counts; for optimizers.
  struct Step;

 protected:
  ProfileScope(std::string_view name, bool step) {
    if (core::observer != nullptr) [[unlikely]]
      part_ = core::observer->begin_part(name, step);
  }

 private:
  int64_t part_ = 0;
};

struct ProfileScope::Step : ProfileScope {
  explicit Step(std::string_view name) : ProfileScope(name, true) {}
};

}  // namespace hero

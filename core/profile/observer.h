#pragma once
// What a profiler hears of its thread from all components: parts of the program, calls to other
// ranks and the waits for them. With none listening each of these costs one comparison.
#include <cstdint>
#include <string_view>

namespace hero::core {

/// A call to other ranks, as it begins.
struct ObservedCall {
  std::string_view op;    ///< "all_gather", ..
  std::string_view axis;  ///< name of the group
  std::string_view unit;  ///< what it moves, "" where it has no name
  int64_t bytes = 0;      ///< that this rank sends, as Traffic counts them
};

/// Listens to one thread. Numbers that it gives are above 0, and differ from those of any other
/// observer that the thread ever had; numbers of others are ignored.
class Observer {
 public:
  virtual ~Observer() = default;
  /// A part of the program begins on this thread; `step` is true of an optimizer's step.
  virtual int64_t begin_part(std::string_view name, bool step) = 0;
  virtual void end_part(int64_t part) noexcept = 0;
  virtual int64_t begin_call(const ObservedCall& call) = 0;
  /// The thread waits for the call; ended by end_part().
  virtual int64_t begin_wait(int64_t call) = 0;
  /// The thread knows now that the call is complete; harmless when it already knew.
  virtual void complete_call(int64_t call) noexcept = 0;
};

/// The observer of this thread, or null.
extern constinit thread_local Observer* observer;

}  // namespace hero::core

namespace hero {

/// Names a part of a program, such as "data" or "evaluation", while it lives, for the Profiler that
/// is open on this thread; with none it costs one comparison. Parts and operations inside it are
/// its children. PyTorch has it as record_function.
class ProfileScope {
 public:
  explicit ProfileScope(std::string_view name) : ProfileScope(name, false) {}
  ~ProfileScope() {
    if (part_ != 0 && core::observer != nullptr) [[unlikely]]
      core::observer->end_part(part_);
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

  /// A part that is a whole step of training, by which Profiler counts: for optimizers.
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

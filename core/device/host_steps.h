#pragma once
// HostSteps: the work of the host before each replay of a step that a device has recorded
// (cuda::GraphedStep).
#include <functional>
#include <utility>
#include <vector>

namespace hero::core {

/// The host's part of a recorded call, which it repeats before each replay.
class HostSteps {
 public:
  /// An optimizer's part of the call.
  struct Part {
    /// Counts the step and gives its updates to the backend, which only reads their coefficients
    /// and changes no array.
    std::function<void()> again;
    /// All options of the optimizer, in a fixed order; the call itself may not change them.
    std::function<std::vector<double>()> options;
  };

  /// The object of the call that the calling thread is recording or replaying; null if there is
  /// none.
  static HostSteps*& current();

  /// While it lives, updates on this thread have coefficients that each replay takes anew; `steps`
  /// may be null.
  class Taking {
   public:
    explicit Taking(HostSteps* steps)
        : steps_(steps), before_(steps && std::exchange(steps->taking_, true)) {}
    ~Taking() {
      if (steps_) steps_->taking_ = before_;
    }
    Taking(const Taking&) = delete;
    Taking& operator=(const Taking&) = delete;

   private:
    HostSteps* steps_;
    bool before_;
  };
  bool taking() const { return taking_; }

  std::vector<Part> parts;  ///< in the order of the call

 private:
  bool taking_ = false;
};

}  // namespace hero::core

#pragma once
// What the host adds to a call that a device records once and then repeats (cuda::GraphedStep).
#include <functional>
#include <utility>
#include <vector>

namespace hero::core {

/// The host's part of a recorded call: what it does again before each repetition.
class HostSteps {
 public:
  /// An optimizer's part of the call.
  struct Part {
    /// Counts the step and hands its updates to the backend, which takes their coefficients and
    /// changes no array.
    std::function<void()> again;
    /// All its options, in a fixed order: the call itself may not change them.
    std::function<std::vector<double>()> options;
  };

  /// Those of the call that the calling thread is making; null where nothing is recorded.
  static HostSteps*& current();

  /// While it lives, coefficients of updates are those of one repetition; `steps` may be null.
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

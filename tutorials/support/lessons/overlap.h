#pragma once
// Chapters 11 and 17: the time of a step, by a model of a rank's processor and of its link.
#include <map>
#include <string>
#include <vector>

#include "support/options/ranks.h"

namespace tutorial {

/// What the model assumes of a machine.
struct Machine {
  double operations;  ///< a second
  double bytes;       ///< a second, that leave a rank
  double message;     ///< seconds that every message takes beside those of its bytes
};

/// Something that takes time in a lane of a drawing.
struct LaneSpan {
  std::string what;
  double begin, end;   // seconds since the step began
  const char* colour;  // in which it is drawn
};

/// A step of one rank as it is drawn.
struct StepLanes {
  std::string name;
  std::vector<LaneSpan> computing, sending;
  double seconds;
  double waited;  // seconds in which the processor waited for messages
};

/// The time of one rank's step in a model in which nothing is measured: computing takes the time of
/// its operations, a message that of its bytes, and messages leave one after the other. So the same
/// step takes the same time wherever this is run. All other ranks do the same at the same time.
class StepModel {
 public:
  StepModel(std::string name, const Machine& machine) : name_(std::move(name)), machine_(machine) {}

  enum class Message { gather, reduce };

  /// The processor computes from now on until that is done.
  void compute(const std::string& what, double operations);
  /// A message begins now, or when those before it have left; the processor goes on.
  void send(Message kind, const std::string& what, double bytes);
  /// The processor waits until the last message of that kind and name has come.
  void wait(Message kind, const std::string& what);
  /// The same for all messages.
  void wait_all();

  const std::string& name() const { return name_; }
  double seconds() const { return now_; }
  /// Seconds in which the processor waited for messages.
  double waited() const { return waited_; }
  StepLanes lanes() const { return {name_, computing_, sending_, now_, waited_}; }

 private:
  void wait_until(double time);

  std::string name_;
  Machine machine_;
  std::vector<LaneSpan> computing_, sending_;
  std::map<std::pair<Message, std::string>, double> came_;  // when the last of a name came
  double now_ = 0.0, link_free_ = 0.0, waited_ = 0.0;
};

/// Floating-point operations of a forward of `rows` rows through `parameters` parameters: a product
/// and a sum each.
inline double forward_operations(int64_t rows, int64_t parameters) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(parameters);
}

/// A table of these steps: their times, and how much of it the processor waited.
void show_steps(const Communicator& world, const std::vector<StepModel>& steps,
                const Machine& machine);

/// Draws them one below the other on one time axis, each as two lanes: what the processor computes,
/// and what is on the link. Forwards are blue, what begins with ∇ green, gathered parameters pink,
/// reduced gradients orange. Into folder/name.
void draw_steps(const std::vector<StepLanes>& steps, const std::string& title,
                const std::string& folder, const std::string& name);
void draw_steps(const std::vector<StepModel>& steps, const std::string& title,
                const std::string& folder, const std::string& name);

}  // namespace tutorial

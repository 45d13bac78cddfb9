#pragma once
// Gradients of parameters that are tied over several stages of a pipeline, and of those that this
// rank does not hold.
#include <vector>

#include <hero/dist/communicator.h>
#include <hero/dist/parallel/stages.h>

namespace hero::dist {

/// A parameter that this rank and others hold. Which of them are trained can change from step to
/// step.
struct TiedGradient {
  std::string name;
  Tensor leaf;
  Communicator ranks;  ///< the ranks that hold it
  /// Whether its gradient contains that of a step under no_sync(), which is added up over the
  /// stages, but not yet averaged along the data axis.
  bool unaveraged = false;
};

/// This rank's tied parameters. A collective of the pipeline.
std::vector<TiedGradient> tied_gradients(const std::vector<StageValue>& values,
                                         const Communicator& pipe);

/// Sets the earlier gradients of tied parameters aside, so that only the gradients of this step are
/// added up over the stages. Its destructor adds the earlier gradients back. Where they still have
/// to be averaged along the data axis, and this step averages, they stay on the first of the ranks,
/// so that they are averaged and added up once. Does nothing to parameters that are frozen.
class TiedGradientScope {
 public:
  /// Throws an Error if a tied parameter is trained and sharded, since stages would shard it
  /// differently.
  explicit TiedGradientScope(std::vector<TiedGradient>& tied);
  ~TiedGradientScope();
  TiedGradientScope(const TiedGradientScope&) = delete;
  TiedGradientScope& operator=(const TiedGradientScope&) = delete;
  /// Adds up the gradients over the stages. A collective of the ranks that hold each parameter;
  /// throws an Error on all of them if only some train it, or only some average.
  void add_up();

 private:
  struct Step {
    bool trained = false;
    bool averages = true;        // false under no_sync()
    bool former_counts = false;  // another rank has added the earlier gradient
    Tensor former = {};
  };

  std::vector<TiedGradient>& tied_;
  std::vector<Step> steps_;
};

/// Gives parameters of other ranks gradients without elements, so that an optimizer has states for
/// all parameters on every rank.
void set_empty_gradients(const std::vector<StageValue>& values, int rank);

}  // namespace hero::dist

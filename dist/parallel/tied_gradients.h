#pragma once
// Gradients of parameters that are tied over several stages of a pipeline, and of those that this
// rank does not hold.
#include <vector>

#include <hero/dist/communicator.h>
#include <hero/dist/parallel/stages.h>

namespace hero::dist {

/// A parameter that this rank and others hold.
struct TiedGradient {
  std::string name;
  Tensor leaf;
  Communicator ranks;  ///< the ranks that hold it
};

/// This rank's tied parameters. A collective of the pipeline.
std::vector<TiedGradient> tied_gradients(const std::vector<StageValue>& values,
                                         const Communicator& pipe);

/// Sets the earlier gradients of tied parameters aside, so that only the gradients of this step are
/// added up over the stages. Its destructor adds the earlier gradients back.
class TiedGradientScope {
 public:
  /// Throws an Error if a tied parameter is sharded, since stages would shard it differently.
  explicit TiedGradientScope(const std::vector<TiedGradient>& tied);
  ~TiedGradientScope();
  TiedGradientScope(const TiedGradientScope&) = delete;
  TiedGradientScope& operator=(const TiedGradientScope&) = delete;
  /// Adds up the gradients over the stages. A collective of the ranks that hold each parameter.
  void add_up() const;

 private:
  const std::vector<TiedGradient>& tied_;
  std::vector<Tensor> former_;
};

/// Gives parameters of other ranks gradients without elements, so that an optimizer has states for
/// all parameters on every rank.
void set_empty_gradients(const std::vector<StageValue>& values, int rank);

}  // namespace hero::dist

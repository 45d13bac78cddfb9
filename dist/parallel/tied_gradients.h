#pragma once
// Gradients of parameters that several stages of a pipeline compute with, and of those that this
// rank does not hold.
#include <vector>

#include <hero/dist/communicator.h>
#include <hero/dist/parallel/stages.h>

namespace hero::dist {

/// A parameter that this rank holds as other ones do.
struct TiedGradient {
  std::string name;
  Tensor leaf;
  Communicator ranks;  ///< those that hold it
};

/// This rank's tied parameters. A collective of the pipeline.
std::vector<TiedGradient> tied_gradients(const std::vector<StageValue>& values,
                                         const Communicator& pipe);

/// Puts the gradients that tied parameters have aside, so that a step's own are added up over the
/// stages and no others. What it put aside comes back when it ends.
class TiedGradientScope {
 public:
  /// An Error where a tied parameter is sharded: stages cut it in different places.
  explicit TiedGradientScope(const std::vector<TiedGradient>& tied);
  ~TiedGradientScope();
  TiedGradientScope(const TiedGradientScope&) = delete;
  TiedGradientScope& operator=(const TiedGradientScope&) = delete;
  /// A collective of those that hold them.
  void add_up() const;

 private:
  const std::vector<TiedGradient>& tied_;
  std::vector<Tensor> former_;
};

/// Parameters of other ranks get gradients without elements, so that an optimizer's states say as
/// much of all parameters on every rank.
void set_empty_gradients(const std::vector<StageValue>& values, int rank);

}  // namespace hero::dist

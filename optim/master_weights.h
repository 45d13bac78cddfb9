#pragma once
// MasterWeights: an optimizer with float32 master weights for 16-bit parameters, as one type.
#include <vector>

#include <hero/optim/optimizer.h>

namespace hero::optim {

/// The optimizer O; the constructor calls its use_master_weights(). O is any optimizer that this
/// function accepts. It adds constructors, and nothing else.
///
///   optim::MasterWeights<optim::AdamW> adamw(model.parameters(), {.lr = 3e-4});
template <class O>
class MasterWeights : public O {
  static_assert(
      !requires(O & o) { o.lookahead(); }, "the look-ahead would move the masters only");

 public:
  using Group = typename O::Group;
  using Options = decltype(Group::options);

  /// Makes an optimizer O of masters of these parameters, all with the same options.
  explicit MasterWeights(const std::vector<Tensor>& params, const Options& options = {})
      : O(params, options) {
    this->use_master_weights();
  }
  /// Makes masters of groups of parameters, each group with options of its own.
  explicit MasterWeights(const std::vector<Group>& groups) : O(groups) {
    this->use_master_weights();
  }
};

}  // namespace hero::optim

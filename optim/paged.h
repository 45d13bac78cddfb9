#pragma once
// Paged: an optimizer whose states lie in a file, and in memory only during their step, as one
// type.
#include <concepts>
#include <vector>

#include <hero/core/swap_file.h>
#include <hero/optim/lamb.h>
#include <hero/optim/optimizer.h>

namespace hero::optim {

/// The optimizer O; the constructor calls its page_states(). O is any optimizer that this function
/// accepts, or MasterWeights of one; the masters are states too, and all of them are in memory
/// until the constructor returns. It adds constructors, and nothing else.
///
///   core::SwapFile disk("/nvme", {.bytes = int64_t{200} << 30});
///   optim::Paged<optim::MasterWeights<optim::AdamW>> adamw(disk, model.parameters(), {.lr =
///   3e-4});
template <class O>
class Paged : public O {
  static_assert(!std::derived_from<O, LAMB>, "LAMB steps by norms of whole parameters");
  static_assert(
      !requires(O & o) { o.lookahead(); }, "the look-ahead would move all states");

 public:
  using Group = typename O::Group;
  using Options = decltype(Group::options);

  /// Makes an optimizer O for these parameters, with its states in `file`, which must outlive it.
  Paged(core::SwapFile& file, const std::vector<Tensor>& params, const Options& options = {},
        const PagedOptions& paged = {})
      : O(params, options) {
    this->page_states(file, paged);
  }
  /// Makes an optimizer O for groups of parameters, each group with options of its own.
  Paged(core::SwapFile& file, const std::vector<Group>& groups, const PagedOptions& paged = {})
      : O(groups) {
    this->page_states(file, paged);
  }
};

}  // namespace hero::optim

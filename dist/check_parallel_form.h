#pragma once
// Does a module compute the same when ranks divide it? What a module says of itself in its
// nn::ParallelForm, or what a table of cuts says of it, cannot be checked by reading: the forward
// has to agree with it. So the module is run, whole and divided, and compared, before it is
// trained.
//
//   dist::check_parallel_form([] { return std::make_unique<Tagger>(2); }, words);
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <hero/dist/tensor_parallel.h>
#include <hero/nn/module.h>

namespace hero::dist {

/// Options of check_parallel_form().
struct CheckParallelFormOptions {
  int ranks = 2;  ///< ranks that divide the module, threads of this process
  /// The plan of tensor_parallel(); empty: the plan that the modules themselves describe.
  TensorPlan plan = {};
  bool tensor = true;    ///< whether tensor_parallel() is tried, where a module says how it is cut
  bool sequence = true;  ///< whether .sequence is tried, where a module has a stack and no plan
  bool context = true;   ///< whether context_parallel() is tried, where attention shares sequences
  int positions = 1;     ///< the dimension of input and output along which positions lie
  /// Calls the module; absent: module(input). With context_parallel(), a whole model whose own form
  /// says shares_sequence gets the whole input, as a GPT does; any other module gets its rank's
  /// positions of the input. In both cases the output has its rank's positions.
  std::function<Tensor(nn::Module& module, const Tensor& input)> run = {};
};

/// A way of dividing a module that check_parallel_form() has tried.
struct ParallelFormCheck {
  std::string way;  ///< such as "tensor_parallel with .sequence"
  /// The Error by which tensor_parallel() or context_parallel() refused the module before it was
  /// run; empty: it was run, and all values agreed.
  std::string refused = "";
};

/// Runs the module that `make` makes on `input`, once whole and once divided among ranks in each
/// way that its form describes: by tensor_parallel(), with and without .sequence, and by
/// context_parallel(). Everything is computed in float64 and in evaluation mode, with the same
/// parameters, and compared: the outputs, and the gradients of all parameters for a loss in which
/// each element of the output has another weight. Returns what was tried.
///
/// Throws an Error that names what differs first, the output or a parameter, and the likely
/// mistake, for which it runs the module in more ways: a weight that packs several matrices and
/// does not say `parts`; a softmax or norm over hidden units or heads that are divided; packed
/// queries, keys and values that lie head by head; a norm of a block that is also called outside of
/// blocks; positions that a module counts itself where ranks share each sequence; and a module
/// before the blocks that looks at other positions there.
///
/// `make` is called on several threads, and makes the same module on the CPU each time, of sizes
/// that `ranks` divide; for context_parallel(), 2 x ranks divide the positions. A small model shows
/// the same mistakes as a large one.
/// \snippet test_examples_ranks.cpp check_parallel_form
std::vector<ParallelFormCheck> check_parallel_form(
    const std::function<std::unique_ptr<nn::Module>()>& make, const Tensor& input,
    const CheckParallelFormOptions& options = {});

}  // namespace hero::dist

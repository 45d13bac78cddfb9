#pragma once
// A backward pass in two parts: first the gradients of some leaves, such as the inputs of a
// pipeline stage, for which another rank is waiting, and later those of all others, such as its
// weights. Qi et al., arXiv 2401.10241.
//
//   DeferredBackward rest;
//   const Tensor g_x = grad_first({y}, {x}, rest, {.grad_outputs = {g_y}})[0];
//   ...
//   rest.run();  // the parameters have their gradients now
#include <memory>

#include <hero/autograd/tensor.h>

namespace hero {

struct BackwardRequest;

/// The part of a backward pass that grad_first() has deferred. Until it has run, it keeps the
/// arrays that it needs: gradients of outputs, and what operations saved.
class DeferredBackward {
 public:
  /// Makes an object with nothing left to run.
  DeferredBackward();
  explicit DeferredBackward(BackwardRequest rest);
  ~DeferredBackward();
  DeferredBackward(DeferredBackward&&) noexcept;
  DeferredBackward& operator=(DeferredBackward&&) noexcept;

  /// Adds the gradients to the leaves, whose hooks run now; a second call does nothing. If there
  /// are several such objects, gradients are added up in the order of their run() calls.
  void run();
  /// True if nothing is left to run.
  bool done() const { return rest_ == nullptr; }

 private:
  std::unique_ptr<BackwardRequest> rest_;
};

/// Returns what grad() does with respect to `inputs`, which must be leaves, as the first part of a
/// backward pass that `rest` completes: once `rest` has run, every other leaf has the bits of the
/// gradient that backward() would have given it, and no operation has computed anything twice.
/// Operations on the way to the inputs run now. Those that are a TwoPartBackward, such as products
/// with weights, compute the gradients of weights later; all others compute them now, to be added
/// later. Without inputs, everything runs later. Throws an Error if the options ask to keep the
/// graph, which is not possible.
std::vector<Tensor> grad_first(const std::vector<Tensor>& outputs,
                               const std::vector<Tensor>& inputs, DeferredBackward& rest,
                               const GradOptions& options = {});

}  // namespace hero

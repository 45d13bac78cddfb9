#pragma once
// A backward pass in two parts: first the gradients of some leaves, as those of a stage's inputs,
// for which somebody waits, and later those of all others, as of its weights. Qi et al.,
// arXiv 2401.10241.
//
//   DeferredBackward rest;
//   const Tensor g_x = grad_first({y}, {x}, rest, {.grad_outputs = {g_y}})[0];
//   ...
//   rest.run();  // the parameters have their gradients now
#include <memory>

#include <hero/autograd/tensor.h>

namespace hero {

struct Walk;

/// The part of a backward pass that grad_first() has put off. It keeps the arrays that it needs
/// until it has run: gradients of outputs, and what operations saved.
class DeferredBackward {
 public:
  DeferredBackward();
  explicit DeferredBackward(Walk rest);
  ~DeferredBackward();
  DeferredBackward(DeferredBackward&&) noexcept;
  DeferredBackward& operator=(DeferredBackward&&) noexcept;

  /// Adds the gradients to the leaves, whose hooks run now; a second call does nothing. Several of
  /// these add up in the order of their calls.
  void run();
  /// Whether nothing is left to run.
  bool done() const { return rest_ == nullptr; }

 private:
  std::unique_ptr<Walk> rest_;
};

/// grad() with respect to `inputs`, which must be leaves, as the first part of a backward pass that
/// `rest` completes: once it has run, every other leaf has the gradient that backward() would have
/// given it, to the bit, and no operation has computed anything twice. Operations that lead to the
/// inputs run now; of those that are a TwoPartBackward, the products with weights among them,
/// the gradients of weights are computed later, and of all others these are computed now and added
/// later. Without inputs everything runs later. The graph cannot be kept: an Error where options
/// ask for that.
std::vector<Tensor> grad_first(const std::vector<Tensor>& outputs,
                               const std::vector<Tensor>& inputs, DeferredBackward& rest,
                               const GradOptions& options = {});

}  // namespace hero

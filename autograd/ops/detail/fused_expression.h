#pragma once
// Functions of several elementwise operations, derivatives above all. [note: formulas]
// A derivative is written once, in terms. Where it is not itself differentiated, its steps run
// block by block in the cache (core/functions/fused_expression.h). Where it is, they are recorded
// as operations on tensors, so that derivatives of any order need no other code. Half precision is
// computed in float32 either way and rounded once.
#include <hero/autograd/graph/node.h>
#include <hero/autograd/tensor.h>
#include <hero/core/functions/fused_expression.h>

namespace hero {

using core::Term;

/// core::FusedExpression of tensors.
class FusedExpression : public core::FusedExpression {
 public:
  FusedExpression();
  ~FusedExpression();
  Term operator()(const Tensor& input);
  /// The value of the term, with its history if recording is on and an input requires gradients.
  Tensor run(Term result) const;
  /// The same for gradients of several inputs, in one pass: none for those that are not wanted.
  struct Wanted {
    bool is_wanted;
    Term term;
  };
  Grads run(std::initializer_list<Wanted> gradients) const;

 private:
  bool is_recorded() const;
  Tensor recorded(Term result) const;
  InlineVector<Tensor, 6> tensors_;  // beside values_; undefined for a number
};

namespace detail {
/// The sums of a * b over the last `dims` dimensions of both, whose shapes are equal. Neither is of
/// half precision, and not both are of integers.
Tensor sum_of_products(const Tensor& a, const Tensor& b, int dims);

Tensor derived(const Tensor& g, const Tensor& saved, Term (*call)(const void* f, Term, Term),
               const void* f);
}  // namespace detail

/// f(g, saved) for a function f of terms: the gradient of an operation with one input, computed
/// from the gradient of its output and a saved value.
template <class F>
Tensor derived(const Tensor& g, const Tensor& saved, const F& f) {
  const auto call = [](const void* of, Term dy, Term x) {
    return (*static_cast<const F*>(of))(dy, x);
  };
  return detail::derived(g, saved, call, &f);
}

}  // namespace hero

#pragma once
// Helpers of the losses.
#include <limits>

#include <hero/autograd/ops/detail/fused_expression.h>
#include <hero/autograd/ops/losses/losses.h>
#include <hero/autograd/sharding/partition.h>

namespace hero::detail {

/// A bound that no number exceeds.
inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// The loss itself, its mean or its sum.
Tensor reduce_loss(const Tensor& loss, Reduction reduction);

/// An elementwise loss of x and y with a parameter: its value and its gradients, as terms of a
/// FusedExpression.
struct PairLoss {
  const char* name;
  Term (*value)(Term x, Term y, double parameter);
  Term (*to_x)(Term dy, Term x, Term y, double parameter);  ///< the gradient of x
  Term (*to_y)(Term dy, Term x, Term y, double parameter);  ///< that of y; null: none
};
/// Computes the loss. For a mean or a sum, no array of the elements' losses is made.
Tensor pair_loss(const PairLoss& loss, const Tensor& x, const Tensor& y, double parameter = 0.0,
                 Reduction reduction = Reduction::none);

/// Throws unless x is floating and the shapes are equal: [N, 1] against [N] would silently compare
/// all pairs.
void check_pair(const char* op, const Tensor& x, const Tensor& y);

/// A loss of x and y, computed in their promoted dtype and returned in x's dtype, which is
/// PyTorch's rule for losses that are one operation.
template <class Loss>
Tensor in_dtype_of(const Tensor& x, const Tensor& y, const Loss& loss) {
  if (x.dtype() == y.dtype()) return loss(x, y);
  const DType wide = promote(x.dtype(), y.dtype());
  return loss(x.to(wide), y.to(wide)).to(x.dtype());
}

/// cross_entropy against probabilities of x's shape instead of class numbers.
Tensor cross_entropy_probabilities(const Tensor& x, const Tensor& target,
                                   const CrossEntropyOptions& options);

/// Class numbers, in which those to be ignored are replaced by 0, and a mask of the rows that
/// count.
struct Targets {
  Tensor classes;  // int64, the target's shape
  Tensor counted;  // bool, the same; undefined when all rows count
  int64_t count = 0;
  Tensor count_there = {};  // in place of `count` if the targets are not in the host's memory
};

/// Reads every target once; targets on meta count as valid. A target that is neither in [0,
/// classes) nor ignore_index is an Error, on a GPU at the time of call::CheckedIndex.
Targets read_targets(const char* op, int64_t classes, const Tensor& target, int64_t ignore_index);

/// linear_cross_entropy() for targets that are probabilities, or with class weights, in chunks of
/// `rows` rows.
Tensor linear_cross_entropy_parts(const Tensor& x, const Tensor& weight, const Tensor& target,
                                  const LinearCrossEntropyOptions& options, int64_t rows);

/// linear_cross_entropy() of a weight whose rows are cut into the boxes of `part` among several
/// ranks.
Tensor vocabulary_cross_entropy(const Tensor& x, const Tensor& weight, const Partition& part,
                                const Tensor& target, const LinearCrossEntropyOptions& options);

/// A sum over rows divided by the number of rows that count; NaN if none does.
Tensor mean_of_counted(const Tensor& total, const Targets& targets);

/// Throws unless x is floating and `target` can hold class numbers.
void check_class_dtypes(const char* op, const Tensor& x, const Tensor& target);

}  // namespace hero::detail

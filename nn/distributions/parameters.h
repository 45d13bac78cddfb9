#pragma once
// Checks and conversions of the parameters of distributions.
#include <limits>

#include <hero/autograd/ops/creation/creation.h>
#include <hero/autograd/ops/elementwise/elementwise.h>
#include <hero/autograd/ops/nn/nn.h>
#include <hero/autograd/ops/reduce/reduce.h>
#include <hero/nn/distributions_continuous.h>

namespace hero::distributions {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kEuler = 0.57721566490153286061;  // Euler's gamma

/// Throws an Error that shows the first of these numbers for which a condition does not hold.
void check_all(const Tensor& holds, const Tensor& numbers, const char* what);

/// The numbers. Throws an Error unless all are positive.
const Tensor& check_positive(const char* name, const char* parameter, const Tensor& numbers);

/// The parameters in their common shape. Throws an Error unless they are floating.
std::vector<Tensor> broadcast(const char* name, const std::vector<Tensor>& parameters);

/// The one of probs and logits that is given.
const Tensor& given(const char* name, const ProbsOrLogits& odds);

/// Probabilities as Bernoulli has them, in [0, 1], and their log odds.
ProbsOrLogits both_odds(const char* name, const ProbsOrLogits& odds);

/// The lower factor of a covariance. Throws an Error unless one matrix is given, and fits
/// CovarianceMatrix.
Tensor factor_of(const char* name, const CovarianceMatrix& spread);
/// The logarithm of the determinant of a triangular matrix, of each of a batch.
Tensor log_determinant(const Tensor& factor);
/// From 1 to the next number of a floating dtype.
double epsilon_of(DType dtype);

/// log(K - 1), .., log 1 for K - 1 numbers in the last dimension of `like`: the logarithms of how
/// many parts are left when a stick is broken.
Tensor log_parts_left(const Tensor& like);

/// Numbers of [0, 1] that are moved inside by the rounding error of 1.
Tensor within_unit(const Tensor& x);

/// The mask of elements of x that are below 0 or above `most`; NaN is neither.
template <class T>
Tensor beyond(const Tensor& x, const T& most) {
  const Tensor above = x > most;
  return logical_or(x < 0, above);
}

/// log(1 + exp(x)), exact for large x too.
inline Tensor softplus_of(const Tensor& x) { return -logsigmoid(-x); }

/// 0 in place of -inf, whose probability is 0: their product is 0, and has no gradient.
inline Tensor finite(const Tensor& logits) { return where(isneginf(logits), 0, logits); }

/// x, but a harmless 1 where a value lies outside the support, so that no NaN reaches gradients.
inline Tensor inside(const Tensor& outside, const Tensor& x) { return where(outside, 1, x); }
/// The log probability, but -inf outside the support; NaN stays NaN.
inline Tensor nothing(const Tensor& outside, const Tensor& log_prob) {
  return where(outside, -kInfinity, log_prob);
}

/// Positive numbers in a dtype, none below the least that it has with all its digits, and none
/// above `most`.
Tensor at_least_normal(const Tensor& x, DType dtype, double most = kInfinity);

/// Exponential draws of rate 1, above 0.
Tensor unit_exponential(const Shape& shape, const Tensor& like);

/// Options for a tensor with x's dtype and device.
inline TensorOptions beside(const Tensor& x) { return {.dtype = x.dtype(), .device = x.device()}; }

/// The sum over the last n dimensions.
Tensor sum_last(const Tensor& x, int n);

/// A shape without its last dimension.
inline Shape without_last(Shape shape) {
  shape.pop_back();
  return shape;
}

}  // namespace hero::distributions

#pragma once
// Random tensors, drawn from this thread's generator (manual_seed() in core/random.h).
#include <hero/autograd/ops/creation/creation.h>
#include <hero/core/random.h>

namespace hero {

/// \name Of a shape
/// \{
/// Uniform random numbers in [0, 1), float32 unless another floating dtype is given.
Tensor rand(const Shape& shape, const TensorOptions& options = {});
/// Random numbers from the standard normal distribution, float32 unless another floating dtype is
/// given.
/// \snippet test_examples_tensors.cpp randn
Tensor randn(const Shape& shape, const TensorOptions& options = {});
/// Random integers in [low, high), int64 unless a dtype is given. Throws an Error unless low <
/// high.
Tensor randint(int64_t low, int64_t high, const Shape& shape, const TensorOptions& options = {});
/// A random permutation [n] of 0 to n - 1, int64 unless a dtype is given; n is not negative.
Tensor randperm(int64_t n, const TensorOptions& options = {});
/// \}

/// \name From distributions
/// \{
/// 1 with the probability given by each element of p, else 0: of p's shape and dtype, which is
/// floating, without gradient. Throws an Error unless the probabilities lie in [0, 1].
Tensor bernoulli(const Tensor& p);
/// Draws num_samples positions (int64) in p [C], or in each row of p [N, C], each with a
/// probability proportional to its element of p, which is not negative; the result is [num_samples]
/// or [N, num_samples]. Without replacement no position is drawn twice, so that more than C samples
/// are an Error: those with the largest p / E are drawn, where E is exponentially distributed.
/// Efraimidis and Spirakis, Information Processing Letters 97, 2006.
Tensor multinomial(const Tensor& p, int64_t num_samples, bool replacement = false);
/// Options of gumbel_softmax().
struct GumbelSoftmaxOptions {
  double tau = 1.0;   ///< the temperature: the nearer to 0, the nearer to one-hot
  bool hard = false;  ///< true: the result is one-hot, with the gradient of the soft one
  int64_t dim = -1;   ///< the dimension along which the result sums to 1
};
/// Draws from categorical distributions, softened so that they have a gradient: the softmax of
/// (logits + G) / tau, of the shape and floating dtype of logits, where G is drawn from the
/// standard Gumbel distribution. Jang et al., arXiv 1611.01144.
Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxOptions& options = {});
/// Random numbers from normal distributions with these means and standard deviations, which are not
/// negative; tensors broadcast, and get no gradient.
Tensor normal(const Tensor& mean, const Tensor& std);
Tensor normal(const Tensor& mean, double std = 1.0);
Tensor normal(double mean, const Tensor& std);
Tensor normal(double mean, double std, const Shape& shape, const TensorOptions& options = {});
/// \}

/// \name In the shape of x, and in its dtype and on its device unless others are given
/// \{
Tensor rand_like(const Tensor& x);
Tensor randn_like(const Tensor& x);
Tensor rand_like(const Tensor& x, const LikeOptions& options);
Tensor randn_like(const Tensor& x, const LikeOptions& options);
/// Integers in [low, high), in x's dtype unless another is given.
Tensor randint_like(const Tensor& x, int64_t low, int64_t high, const LikeOptions& options = {});
/// \}

/// \name With a dtype instead of options: rand({2}, kFloat64)
/// They are templates, so that {} still means the options.
/// \{
template <std::same_as<DType> D>
Tensor rand(const Shape& shape, D dtype) {
  return rand(shape, TensorOptions{.dtype = dtype});
}
template <std::same_as<DType> D>
Tensor randn(const Shape& shape, D dtype) {
  return randn(shape, TensorOptions{.dtype = dtype});
}
/// \}

}  // namespace hero

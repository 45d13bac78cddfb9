#pragma once
// Probability distributions as PyTorch has them: draws, and the log probabilities of what was
// drawn, with gradients.
//
//   const distributions::Categorical policy({.logits = model(state)});
//   const Tensor action = policy.sample();                      // no gradient
//   (-policy.log_prob(action) * reward).mean().backward();      // Williams, 1992
//   kl_divergence(policy, old_policy);
//
// Parameters broadcast together to the batch shape; a draw of shape S is [S .., batch ..]. Draws
// come from the thread's generator (manual_seed).
#include <optional>

#include <hero/autograd/tensor.h>

namespace hero::distributions {

/// The common base of the distributions.
class Distribution {
 public:
  virtual ~Distribution() = default;
  /// The logarithm of the probability or density of each value; values broadcast with the batch.
  virtual Tensor log_prob(const Tensor& value) const = 0;
  /// The entropy in nats, of the batch shape.
  virtual Tensor entropy() const = 0;
  /// The mean, of the batch shape.
  virtual Tensor mean() const = 0;
  /// The variance, of the batch shape.
  virtual Tensor variance() const = 0;
  /// The square root of the variance, also where this does not fit the dtype.
  virtual Tensor stddev() const;
  /// Draws of shape [shape .., batch ..], without gradients.
  Tensor sample(const Shape& shape = {}) const;
  /// Draws with gradients with respect to the parameters: the reparametrisation of Kingma and
  /// Welling, arXiv 1312.6114. Throws an Error for discrete distributions.
  virtual Tensor rsample(const Shape& shape = {}) const;
  /// The shape that the parameters have together.
  const Shape& batch_shape() const { return batch_shape_; }

 protected:
  /// For derived classes, which know the shape that their parameters have together.
  explicit Distribution(const Shape& batch_shape) : batch_shape_(batch_shape) {}
  /// Draws of shape `whole`, for sample(); nothing is recorded.
  virtual Tensor draw(const Shape& whole) const = 0;
  Shape extended(const Shape& shape) const;
  virtual const char* name() const = 0;

 private:
  Shape batch_shape_;
};

/// The normal distribution, of density exp(-(x - loc)^2 / (2 scale^2)) / (scale sqrt(2 pi)).
class Normal : public Distribution {
 public:
  /// Makes a distribution; loc and scale broadcast. Throws an Error unless scale is positive, or if
  /// loc holds NaN.
  Normal(const Tensor& loc, const Tensor& scale);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override { return loc; }
  Tensor variance() const override;
  Tensor stddev() const override { return scale; }
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor loc, scale;  ///< of the batch shape

 private:
  Normal(const std::pair<Tensor, Tensor>& both);
  Tensor draw(const Shape& whole) const override;
  const char* name() const override { return "Normal"; }
};

/// The uniform distribution, of density 1 / (high - low) in [low, high); elsewhere log_prob() is
/// -inf.
class Uniform : public Distribution {
 public:
  /// Makes a distribution; low and high broadcast. Throws an Error unless low is less than high.
  Uniform(const Tensor& low, const Tensor& high);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor stddev() const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor low, high;  ///< of the batch shape

 private:
  Uniform(const std::pair<Tensor, Tensor>& both);
  Tensor draw(const Shape& whole) const override;
  const char* name() const override { return "Uniform"; }
};

/// The parameter of a discrete distribution; give one of the two, as in PyTorch.
struct Odds {
  Tensor probs = {};   ///< probabilities
  Tensor logits = {};  ///< logarithms of the probabilities, [.., K]
};

/// The Bernoulli distribution: 1 with probability p, else 0.
class Bernoulli : public Distribution {
 public:
  /// Makes a distribution. Throws an Error unless exactly one of the two is given, and
  /// probabilities lie in [0, 1], and logits hold no NaN.
  explicit Bernoulli(const Odds& odds);
  /// The log probability of values 0 and 1.
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  /// The probabilities, [.., K].
  Tensor mean() const override { return probs; }
  Tensor variance() const override;

  const Tensor probs, logits;  ///< each made of the other

 private:
  Tensor draw(const Shape& whole) const override;
  const char* name() const override { return "Bernoulli"; }
};

/// The categorical distribution: i = 0, ..., K - 1 with probability probs[.., i]. The batch shape
/// is that of the parameter without its last dimension.
class Categorical : public Distribution {
 public:
  /// Makes a distribution; probabilities are divided by their sum. Throws an Error unless exactly
  /// one of the two is given, with at least one dimension, and probabilities are neither negative
  /// nor all 0, and logits hold no NaN and a largest one that is finite.
  explicit Categorical(const Odds& odds);
  /// The log probability of whole numbers from 0 to K - 1.
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  /// Throws an Error, as variance() does: numbers of categories have no mean.
  Tensor mean() const override;
  Tensor variance() const override;

  const Tensor logits;  ///< logarithms of the probabilities, [.., K]
  const Tensor probs;   ///< [.., K]

 private:
  Tensor draw(const Shape& whole) const override;
  const char* name() const override { return "Categorical"; }
};

/// \name KL(p || q), the mean under p of log p - log q
/// The divergence is infinite if p has probability where q has none. The result has the batch
/// shape.
/// \{
Tensor kl_divergence(const Normal& p, const Normal& q);
Tensor kl_divergence(const Uniform& p, const Uniform& q);
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q);
Tensor kl_divergence(const Categorical& p, const Categorical& q);
/// \}

}  // namespace hero::distributions

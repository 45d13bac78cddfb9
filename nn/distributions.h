#pragma once
// Probability distributions as PyTorch has them: draws and log probabilities, with gradients.
//
//   const distributions::Categorical policy({.logits = model(state)});
//   const Tensor action = policy.sample();                      // no gradient
//   (-policy.log_prob(action) * reward).mean().backward();      // Williams, 1992
//   kl_divergence(policy, old_policy);
//
// Parameters broadcast together to the batch shape; draws of shape S are [S .., batch .., event
// ..]. They come from the thread's generator (manual_seed). Further distributions are in
// distributions_continuous.h and distributions_discrete.h, those made of others, and transforms, in
// distributions_composed.h.
#include <vector>

#include <hero/autograd/tensor.h>

namespace hero::distributions {

/// A draw with its log probability.
struct DrawWithLogProb {
  Tensor value;     ///< the draw, as rsample() returns it
  Tensor log_prob;  ///< log probability of the value, of the batch shape
};

/// The common base of the distributions. Batch and event shapes are PyTorch's: a value has the
/// shape [.., batch .., event ..], and log_prob() is a number for each event. A member that has no
/// closed form for a distribution throws an Error.
class Distribution {
 public:
  virtual ~Distribution() = default;
  /// The class's name, for errors.
  virtual const char* name() const = 0;
  /// The logarithm of the probability or density of each value; values broadcast with the batch.
  /// -inf outside the support.
  virtual Tensor log_prob(const Tensor& value) const = 0;
  /// The entropy in nats, of the batch shape.
  virtual Tensor entropy() const;
  /// The mean, of the batch and the event shape.
  virtual Tensor mean() const;
  /// The variance, of the batch and the event shape.
  virtual Tensor variance() const;
  /// The square root of the variance, even if the variance overflows the dtype.
  virtual Tensor stddev() const;
  /// The likeliest value, of the batch and the event shape; NaN where there is none, or no single
  /// one. int64 of a Categorical. Throws an Error for a kind that has no formula.
  Tensor mode() const;
  /// The probability of each value or a smaller one.
  virtual Tensor cdf(const Tensor& value) const;
  /// The inverse of cdf(): the values that have these probabilities below them.
  virtual Tensor icdf(const Tensor& probability) const;
  /// Draws of shape [shape .., batch .., event ..], without gradients.
  Tensor sample(const Shape& shape = {}) const;
  /// Draws with gradients with respect to the parameters: the reparametrisation of Kingma and
  /// Welling, arXiv 1312.6114. Throws an Error for discrete distributions.
  virtual Tensor rsample(const Shape& shape = {}) const;
  /// rsample() with log_prob() of what it drew. A TransformedDistribution computes it from the draw
  /// of its base, so that no inverse can lose digits where a transform is flat.
  virtual DrawWithLogProb rsample_with_log_prob(const Shape& shape = {}) const;
  /// The shape that the parameters have together.
  const Shape& batch_shape() const { return batch_shape_; }
  /// The shape of one draw from one distribution; {} where that is a number.
  const Shape& event_shape() const { return event_shape_; }

 protected:
  /// For derived classes, which know the shape that their parameters have together.
  explicit Distribution(const Shape& batch_shape, const Shape& event_shape = {})
      : batch_shape_(batch_shape), event_shape_(event_shape) {}
  /// Draws for sample(), without recording; rsample() unless a class overrides it.
  virtual Tensor draw(const Shape& shape) const { return rsample(shape); }
  /// [shape .., batch .., event ..].
  Shape extended(const Shape& shape) const;
  [[noreturn]] void lacks(const char* what) const;

 private:
  Shape batch_shape_, event_shape_;
};

/// The common base of distributions with a location and a positive scale.
class LocationScale : public Distribution {
 public:
  const Tensor loc, scale;  ///< of the batch shape

 protected:
  /// loc and scale broadcast. Throws an Error unless scale is positive, or if loc holds NaN.
  LocationScale(const char* name, const Tensor& loc, const Tensor& scale);

 private:
  LocationScale(const char* name, const std::vector<Tensor>& both);
};

/// The normal distribution, of density exp(-(x - loc)^2 / (2 scale^2)) / (scale sqrt(2 pi)).
class Normal : public LocationScale {
 public:
  /// Makes a distribution; loc and scale broadcast. Throws an Error unless scale is positive, or if
  /// loc holds NaN.
  Normal(const Tensor& l, const Tensor& s) : LocationScale("Normal", l, s) {}
  const char* name() const override { return "Normal"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override { return loc; }
  Tensor variance() const override;
  Tensor stddev() const override { return scale; }
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor rsample(const Shape& shape = {}) const override;
};

/// The uniform distribution, of density 1 / (high - low) in [low, high); elsewhere log_prob() is
/// -inf.
class Uniform : public Distribution {
 public:
  /// Makes a distribution; low and high broadcast. Throws an Error unless low is less than high.
  Uniform(const Tensor& low, const Tensor& high);
  const char* name() const override { return "Uniform"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor stddev() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor low, high;  ///< of the batch shape

 private:
  explicit Uniform(const std::vector<Tensor>& both);
};

/// The parameter of a discrete distribution; give one of the two, as in PyTorch.
struct ProbsOrLogits {
  Tensor probs = {};   ///< probabilities
  Tensor logits = {};  ///< logarithms of the probabilities, [.., K]
};

/// The Bernoulli distribution: 1 with probability p, else 0.
class Bernoulli : public Distribution {
 public:
  /// Makes a distribution. Throws an Error unless exactly one of the two is given, and
  /// probabilities lie in [0, 1], and logits hold no NaN.
  explicit Bernoulli(const ProbsOrLogits& odds);
  const char* name() const override { return "Bernoulli"; }
  /// The log probability of values 0 and 1.
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  /// The probabilities, [.., K].
  Tensor mean() const override { return probs; }
  Tensor variance() const override;

  const Tensor probs, logits;  ///< each computed from the other

 private:
  Bernoulli(const ProbsOrLogits& both, bool complete);
  Tensor draw(const Shape& shape) const override;
};

/// The categorical distribution: i = 0, ..., K - 1 with probability probs[.., i]. The batch shape
/// is that of the parameter without its last dimension.
class Categorical : public Distribution {
 public:
  /// Makes a distribution; probabilities are divided by their sum. Throws an Error unless exactly
  /// one of the two is given, with at least one dimension, and probabilities are neither negative
  /// nor all 0, and logits hold no NaN and a largest one that is finite.
  explicit Categorical(const ProbsOrLogits& odds);
  const char* name() const override { return "Categorical"; }
  /// The log probability of whole numbers from 0 to K - 1.
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  /// Throws an Error, as variance() does: numbers of categories have no mean.
  Tensor mean() const override;
  Tensor variance() const override;

  const Tensor logits;  ///< logarithms of the probabilities, [.., K]
  const Tensor probs;   ///< [.., K]

 private:
  Tensor draw(const Shape& shape) const override;
};

/// KL(p || q), the mean under p of log p - log q, of the batch shape; infinite if p has probability
/// where q has none. It is defined for two distributions of the same kind, except StudentT,
/// Multinomial and mixtures; for two Independent or two TransformedDistribution only if they agree
/// in their dimensions or transforms. Further pairs are Beta, Exponential, Gamma, Gumbel, Laplace
/// or Uniform with Normal, Beta, Gamma or Uniform with Exponential, and Exponential with Gamma.
/// Throws an Error for others.
Tensor kl_divergence(const Distribution& p, const Distribution& q);

}  // namespace hero::distributions

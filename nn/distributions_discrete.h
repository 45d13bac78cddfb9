#pragma once
// Discrete distributions beside Bernoulli and Categorical, as PyTorch has them, and continuous ones
// that take their place because their draws have gradients. The host makes the draws of Poisson,
// Binomial, NegativeBinomial and Multinomial, for tensors of any device. Draws have the floating
// dtype of the parameters, counts too, and log_prob() is -inf for values that cannot be drawn.
#include <hero/nn/distributions_composed.h>

namespace hero::distributions {

/// The geometric distribution: how often a trial of this probability fails before it succeeds. The
/// probability of k = 0, 1, .. is (1 - p)^k p.
class Geometric : public Distribution {
 public:
  /// Throws an Error unless exactly one of the two is given, and probabilities lie in (0, 1].
  explicit Geometric(const ProbsOrLogits& odds);
  const char* name() const override { return "Geometric"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;

  const Tensor probs, logits;  ///< each computed from the other

 private:
  Geometric(const ProbsOrLogits& both, bool complete);
  Tensor draw(const Shape& shape) const override;
};

/// The Poisson distribution: k = 0, 1, .. has the probability rate^k exp(-rate) / k!.
class Poisson : public Distribution {
 public:
  /// Throws an Error if rate, which is floating, is negative.
  explicit Poisson(const Tensor& rate);
  const char* name() const override { return "Poisson"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor mean() const override { return rate; }
  Tensor variance() const override { return rate; }

  const Tensor rate;  ///< of the batch shape

 private:
  Tensor draw(const Shape& shape) const override;
};

/// The binomial distribution: how many of total_count trials n of this probability succeed. The
/// probability of k = 0 .. n is n! / (k! (n - k)!) p^k (1 - p)^(n - k).
class Binomial : public Distribution {
 public:
  /// total_count, whole numbers of any dtype, broadcasts with the probabilities. Throws an Error if
  /// it is negative, unless exactly one of probs and logits is given, and probabilities lie in [0,
  /// 1].
  Binomial(const Tensor& total_count, const ProbsOrLogits& odds);
  /// The same, with one count for all.
  Binomial(int64_t total_count, const ProbsOrLogits& odds);
  const char* name() const override { return "Binomial"; }
  Tensor log_prob(const Tensor& value) const override;
  /// The sum over all outcomes; throws an Error unless all counts are equal.
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;

  const Tensor total_count, probs, logits;  ///< of the batch shape and one dtype

 private:
  Binomial(const Tensor& total_count, const ProbsOrLogits& both, bool complete);
  explicit Binomial(const std::vector<Tensor>& all);
  Tensor draw(const Shape& shape) const override;
};

/// The negative binomial distribution: how often a trial of this probability succeeds before it
/// has failed total_count times, r. The probability of k = 0, 1, .. is Gamma(k + r) / (k! Gamma(r))
/// p^k (1 - p)^r.
class NegativeBinomial : public Distribution {
 public:
  /// total_count, any positive number, broadcasts with the probabilities. Throws an Error unless it
  /// is positive, exactly one of probs and logits is given, and probabilities lie in [0, 1).
  NegativeBinomial(const Tensor& total_count, const ProbsOrLogits& odds);
  /// The same, with one count for all.
  NegativeBinomial(double total_count, const ProbsOrLogits& odds);
  const char* name() const override { return "NegativeBinomial"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor mean() const override;
  Tensor variance() const override;

  const Tensor total_count, probs, logits;  ///< of the batch shape and one dtype

 private:
  NegativeBinomial(const Tensor& total_count, const ProbsOrLogits& both, bool complete);
  explicit NegativeBinomial(const std::vector<Tensor>& all);
  Tensor draw(const Shape& shape) const override;
};

/// The multinomial distribution: how often each of K categories comes in total_count draws n, [..,
/// K]. The probability of counts k with the sum n is n! times the product of p_i^k_i / k_i!.
class Multinomial : public Distribution {
 public:
  /// Throws an Error if total_count is negative, and as Categorical does.
  Multinomial(int64_t total_count, const ProbsOrLogits& odds);
  const char* name() const override { return "Multinomial"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;

  const int64_t total_count;
  const Categorical categories;  ///< the distribution of one draw

 private:
  Multinomial(int64_t total_count, const Categorical& of_one);
  Tensor draw(const Shape& shape) const override;
};

/// The categorical distribution over vectors of K numbers, an event, that are 1 at one place and 0
/// elsewhere.
class OneHotCategorical : public Distribution {
 public:
  /// Throws an Error as Categorical does.
  explicit OneHotCategorical(const ProbsOrLogits& odds);
  const char* name() const override { return "OneHotCategorical"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override { return categories.entropy(); }
  Tensor mean() const override { return categories.probs; }
  Tensor variance() const override;

  const Categorical categories;  ///< the distribution of the place that is 1

 private:
  explicit OneHotCategorical(const Categorical& places);
  Tensor draw(const Shape& shape) const override;
};

/// OneHotCategorical whose rsample() has the gradient of the probabilities, as if the draw were
/// these. Bengio et al., arXiv 1308.3432.
class OneHotCategoricalStraightThrough : public OneHotCategorical {
 public:
  using OneHotCategorical::OneHotCategorical;
  const char* name() const override { return "OneHotCategoricalStraightThrough"; }
  Tensor rsample(const Shape& shape = {}) const override;
};

/// The distribution on [0, 1] of density proportional to p^x (1 - p)^(1 - x). Loaiza-Ganem and
/// Cunningham, arXiv 1907.06845.
class ContinuousBernoulli : public Distribution {
 public:
  /// Throws an Error as Bernoulli does.
  explicit ContinuousBernoulli(const ProbsOrLogits& odds);
  const char* name() const override { return "ContinuousBernoulli"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor rsample(const Shape& shape = {}) const override;
  /// The logarithm of the integral of exp(logits x) over [0, 1].
  Tensor log_normalizer() const;

  const Tensor probs, logits;  ///< each computed from the other

 private:
  ContinuousBernoulli(const ProbsOrLogits& both, bool complete);
};

/// The distribution of the log odds of a RelaxedBernoulli.
class LogitRelaxedBernoulli : public Distribution {
 public:
  /// temperature is one positive number. Throws an Error as Bernoulli does.
  LogitRelaxedBernoulli(const Tensor& temperature, const ProbsOrLogits& odds);
  const char* name() const override { return "LogitRelaxedBernoulli"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor temperature, probs, logits;

 private:
  LogitRelaxedBernoulli(const Tensor& temperature, const ProbsOrLogits& both, bool complete);
};

/// Bernoulli's distribution on (0, 1), whose draws lie near 0 and 1 at low temperatures and have
/// gradients. Maddison et al., arXiv 1611.00712; Jang et al., arXiv 1611.01144.
class RelaxedBernoulli : public TransformedDistribution {
 public:
  /// temperature is one positive number. Throws an Error as Bernoulli does.
  RelaxedBernoulli(const Tensor& temperature, const ProbsOrLogits& odds)
      : TransformedDistribution(LogitRelaxedBernoulli(temperature, odds), SigmoidTransform()) {}
  const char* name() const override { return "RelaxedBernoulli"; }
};

/// The distribution of the logarithms of a RelaxedOneHotCategorical.
class ExpRelaxedCategorical : public Distribution {
 public:
  /// temperature is one positive number. Throws an Error as Categorical does.
  ExpRelaxedCategorical(const Tensor& temperature, const ProbsOrLogits& odds);
  const char* name() const override { return "ExpRelaxedCategorical"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor temperature;
  const Categorical categories;  ///< the distribution of the place that is 1

 private:
  ExpRelaxedCategorical(const Tensor& temperature, const Categorical& places);
};

/// OneHotCategorical's distribution over vectors of K positive numbers of sum 1, an event, whose
/// draws lie near corners at low temperatures and have gradients.
class RelaxedOneHotCategorical : public TransformedDistribution {
 public:
  /// temperature is one positive number. Throws an Error as Categorical does.
  RelaxedOneHotCategorical(const Tensor& temperature, const ProbsOrLogits& odds)
      : TransformedDistribution(ExpRelaxedCategorical(temperature, odds), ExpTransform()) {}
  const char* name() const override { return "RelaxedOneHotCategorical"; }
};

}  // namespace hero::distributions

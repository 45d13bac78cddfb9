#pragma once
// Discrete distributions beside Bernoulli and Categorical, as PyTorch has them. The host makes the
// draws, but those of Geometric and OneHotCategorical, for tensors of any device.
#include <hero/nn/distributions.h>

namespace hero::distributions {

/// The geometric distribution: how often a trial of this probability fails before it succeeds.
class Geometric : public Distribution {
 public:
  /// Throws an Error unless exactly one of the two is given, and probabilities lie in (0, 1].
  explicit Geometric(const Odds& odds);
  const char* name() const override { return "Geometric"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;

  const Tensor probs, logits;  ///< each made of the other

 private:
  Geometric(const Odds& both, bool complete);
  Tensor draw(const Shape& shape) const override;
};

/// The Poisson distribution, of probability rate^k exp(-rate) / k!.
class Poisson : public Distribution {
 public:
  /// Throws an Error if rate is negative.
  explicit Poisson(const Tensor& rate);
  const char* name() const override { return "Poisson"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor mean() const override { return rate; }
  Tensor variance() const override { return rate; }

  const Tensor rate;

 private:
  Tensor draw(const Shape& shape) const override;
};

/// The binomial distribution: how many of total_count trials of this probability succeed.
class Binomial : public Distribution {
 public:
  /// total_count, whole numbers of any dtype, broadcasts with the probabilities. Throws an Error if
  /// it is negative, unless exactly one of probs and logits is given, and probabilities lie in [0,
  /// 1].
  Binomial(const Tensor& total_count, const Odds& odds);
  /// The same, with one count for all.
  Binomial(int64_t total_count, const Odds& odds);
  const char* name() const override { return "Binomial"; }
  Tensor log_prob(const Tensor& value) const override;
  /// The sum over all outcomes; throws an Error unless all counts are equal.
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;

  const Tensor total_count, probs, logits;  ///< of the batch shape and one dtype

 private:
  Binomial(const Tensor& total_count, const Odds& both, bool complete);
  explicit Binomial(const std::vector<Tensor>& all);
  Tensor draw(const Shape& shape) const override;
};

/// The multinomial distribution: how often each of K categories comes in total_count draws, [..,
/// K].
class Multinomial : public Distribution {
 public:
  /// Throws an Error if total_count is negative, and as Categorical does.
  Multinomial(int64_t total_count, const Odds& odds);
  const char* name() const override { return "Multinomial"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;

  const int64_t total_count;
  const Categorical categories;  ///< of one draw

 private:
  Multinomial(int64_t total_count, const Categorical& of_one);
  Tensor draw(const Shape& shape) const override;
};

/// The categorical distribution over vectors of K numbers, an event, that are 1 at one place and 0
/// elsewhere.
class OneHotCategorical : public Distribution {
 public:
  /// Throws an Error as Categorical does.
  explicit OneHotCategorical(const Odds& odds);
  const char* name() const override { return "OneHotCategorical"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override { return categories.entropy(); }
  Tensor mean() const override { return categories.probs; }
  Tensor variance() const override;

  const Categorical categories;  ///< of the places

 private:
  explicit OneHotCategorical(const Categorical& places);
  Tensor draw(const Shape& shape) const override;
};

}  // namespace hero::distributions

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

class Distribution {
 public:
  virtual ~Distribution() = default;
  /// The logarithm of the probability, or density, of each value; values broadcast with the batch.
  virtual Tensor log_prob(const Tensor& value) const = 0;
  /// In nats, of the batch shape.
  virtual Tensor entropy() const = 0;
  virtual Tensor mean() const = 0;
  virtual Tensor variance() const = 0;
  Tensor stddev() const;
  /// Draws of shape [shape .., batch ..], without gradients.
  Tensor sample(const Shape& shape = {}) const;
  /// The same with gradients with respect to the parameters, by Kingma and Welling, arXiv
  /// 1312.6114. An Error for what is discrete.
  virtual Tensor rsample(const Shape& shape = {}) const;
  const Shape& batch_shape() const { return batch_shape_; }

 protected:
  explicit Distribution(const Shape& batch_shape) : batch_shape_(batch_shape) {}
  /// Draws of that whole shape, for sample(); recording is off.
  virtual Tensor draw(const Shape& whole) const = 0;
  Shape extended(const Shape& shape) const;
  virtual const char* name() const = 0;

 private:
  Shape batch_shape_;
};

/// Density exp(-(x - loc)^2 / (2 scale^2)) / (scale sqrt(2 pi)).
class Normal : public Distribution {
 public:
  /// An Error unless scale is positive.
  Normal(const Tensor& loc, const Tensor& scale);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override { return loc; }
  Tensor variance() const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor loc, scale;  ///< of the batch shape

 private:
  Normal(const std::pair<Tensor, Tensor>& both);
  Tensor draw(const Shape& whole) const override;
  const char* name() const override { return "Normal"; }
};

/// Density 1 / (high - low) from low to below high; elsewhere log_prob is -inf.
class Uniform : public Distribution {
 public:
  /// An Error unless low is less than high.
  Uniform(const Tensor& low, const Tensor& high);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor low, high;  ///< of the batch shape

 private:
  Uniform(const std::pair<Tensor, Tensor>& both);
  Tensor draw(const Shape& whole) const override;
  const char* name() const override { return "Uniform"; }
};

/// One of the two, as in PyTorch.
struct Odds {
  Tensor probs = {};   ///< probabilities
  Tensor logits = {};  ///< their logarithms up to a constant; of Bernoulli log(p / (1 - p))
};

/// 1 with probability p, else 0.
class Bernoulli : public Distribution {
 public:
  /// An Error unless one of the two is there and probabilities are in [0, 1].
  explicit Bernoulli(const Odds& odds);
  /// Of values 0 and 1.
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override { return probs; }
  Tensor variance() const override;

  const Tensor probs, logits;  ///< each made of the other

 private:
  Tensor draw(const Shape& whole) const override;
  const char* name() const override { return "Bernoulli"; }
};

/// i with probability probs[.., i], i = 0, ..., K - 1; the batch shape is that of the parameter
/// without its last dimension.
class Categorical : public Distribution {
 public:
  /// Probabilities are divided by their sum. An Error unless one of the two is there, of a
  /// dimension at least, and probabilities are not negative and not all 0.
  explicit Categorical(const Odds& odds);
  /// Of whole numbers 0 to K - 1.
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  /// An Error: numbers of categories have none.
  Tensor mean() const override;
  Tensor variance() const override;

  const Tensor logits;  ///< logarithms of the probabilities, [.., K]
  const Tensor probs;   ///< [.., K]

 private:
  Tensor draw(const Shape& whole) const override;
  const char* name() const override { return "Categorical"; }
};

/// \name KL(p || q), the mean under p of log p - log q
/// inf where q has no probability for what p has. Of the batch shape.
/// \{
Tensor kl_divergence(const Normal& p, const Normal& q);
Tensor kl_divergence(const Uniform& p, const Uniform& q);
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q);
Tensor kl_divergence(const Categorical& p, const Categorical& q);
/// \}

}  // namespace hero::distributions

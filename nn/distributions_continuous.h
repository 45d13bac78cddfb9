#pragma once
// Continuous distributions beside Normal and Uniform, as PyTorch has them.
//
// Draws of Gamma, Chi2, Beta, Dirichlet and StudentT are made by the host, for tensors of any
// device. rsample() has gradients with respect to their shapes by implicit reparametrisation
// (Figurnov, Mohamed and Mnih, arXiv 1805.08498), to about 1e-13; these have no second derivatives.
#include <hero/nn/distributions.h>

namespace hero::distributions {

/// The exponential distribution, of density rate exp(-rate x) for x >= 0.
class Exponential : public Distribution {
 public:
  /// Throws an Error unless rate is positive.
  explicit Exponential(const Tensor& rate);
  const char* name() const override { return "Exponential"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor stddev() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor rate;
};

/// The Laplace distribution, of density exp(-|x - loc| / scale) / (2 scale).
class Laplace : public LocationScale {
 public:
  /// loc and scale broadcast. Throws an Error unless scale is positive.
  Laplace(const Tensor& l, const Tensor& s) : LocationScale("Laplace", l, s) {}
  const char* name() const override { return "Laplace"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override { return loc; }
  Tensor variance() const override;
  Tensor stddev() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor rsample(const Shape& shape = {}) const override;
};

/// Gumbel's distribution of the largest of many, of cdf exp(-exp(-(x - loc) / scale)).
class Gumbel : public LocationScale {
 public:
  /// loc and scale broadcast. Throws an Error unless scale is positive.
  Gumbel(const Tensor& l, const Tensor& s) : LocationScale("Gumbel", l, s) {}
  const char* name() const override { return "Gumbel"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor stddev() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor rsample(const Shape& shape = {}) const override;
};

/// The Cauchy distribution, whose mean is NaN and whose variance is infinite.
class Cauchy : public LocationScale {
 public:
  /// loc and scale broadcast. Throws an Error unless scale is positive.
  Cauchy(const Tensor& l, const Tensor& s) : LocationScale("Cauchy", l, s) {}
  const char* name() const override { return "Cauchy"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor rsample(const Shape& shape = {}) const override;
};

/// The distribution of exp(x) for a normal x.
class LogNormal : public Distribution {
 public:
  /// loc and scale, those of x, broadcast. Throws an Error unless scale is positive.
  LogNormal(const Tensor& l, const Tensor& s) : LogNormal(Normal(l, s)) {}
  const char* name() const override { return "LogNormal"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor stddev() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Normal base;  ///< the distribution of x

 private:
  explicit LogNormal(const Normal& b) : Distribution(b.batch_shape()), base(b) {}
};

/// The distribution of |x| for a normal x of mean 0.
class HalfNormal : public Distribution {
 public:
  /// Throws an Error unless scale is positive.
  explicit HalfNormal(const Tensor& scale);
  const char* name() const override { return "HalfNormal"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor stddev() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor scale;
};

/// The gamma distribution, of density rate^a x^(a - 1) exp(-rate x) / Gamma(a), where a is the
/// concentration. cdf() has gradients.
class Gamma : public Distribution {
 public:
  /// The two broadcast. Throws an Error unless both are positive.
  Gamma(const Tensor& concentration, const Tensor& rate);
  const char* name() const override { return "Gamma"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor stddev() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor concentration, rate;  ///< of the batch shape

 protected:
  /// For derived classes: both parameters in one shape.
  Gamma(const char* name, const std::vector<Tensor>& both);
};

/// The chi-squared distribution with df degrees of freedom: Gamma(df / 2, 1 / 2).
class Chi2 : public Gamma {
 public:
  /// Throws an Error unless df is positive.
  explicit Chi2(const Tensor& df);
  const char* name() const override { return "Chi2"; }

  const Tensor df;
};

/// Student's t-distribution with df degrees of freedom, moved by loc and stretched by scale.
class StudentT : public Distribution {
 public:
  /// The three broadcast. Throws an Error unless df and scale are positive.
  StudentT(const Tensor& df, const Tensor& loc, const Tensor& scale);
  const char* name() const override { return "StudentT"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  /// NaN for df <= 1.
  Tensor mean() const override;
  /// NaN for df <= 1, infinite for df <= 2.
  Tensor variance() const override;
  Tensor stddev() const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor df, loc, scale;  ///< of the batch shape

 private:
  explicit StudentT(const std::vector<Tensor>& all);
};

/// The beta distribution, of density proportional to x^(concentration1 - 1) (1 -
/// x)^(concentration0 - 1) in [0, 1].
class Beta : public Distribution {
 public:
  /// The two broadcast. Throws an Error unless both are positive.
  Beta(const Tensor& concentration1, const Tensor& concentration0);
  const char* name() const override { return "Beta"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor concentration1, concentration0;  ///< of the batch shape

 private:
  explicit Beta(const std::vector<Tensor>& both);
};

/// The Dirichlet distribution over K positive numbers of sum 1, an event; its density is
/// proportional to the product of x[i]^(concentration[i] - 1).
class Dirichlet : public Distribution {
 public:
  /// concentration is [.., K]. Throws an Error unless it is positive.
  explicit Dirichlet(const Tensor& concentration);
  const char* name() const override { return "Dirichlet"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor concentration;
};

/// What a MultivariateNormal's numbers vary by; give one of the three, [.., K, K], as in PyTorch.
struct Spread {
  Tensor covariance_matrix = {};  ///< symmetric and positive definite
  Tensor precision_matrix = {};   ///< the inverse of the covariance
  Tensor scale_tril = {};         ///< its lower factor L, of covariance L L^T: the cheapest
};

/// The normal distribution of vectors of K numbers, an event.
class MultivariateNormal : public Distribution {
 public:
  /// loc is [.., K]; batches broadcast. Throws an Error unless one matrix is given and is positive
  /// definite, scale_tril lower triangular with a positive diagonal.
  MultivariateNormal(const Tensor& loc, const Spread& spread);
  const char* name() const override { return "MultivariateNormal"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override { return loc; }
  Tensor variance() const override;
  Tensor covariance_matrix() const;
  Tensor precision_matrix() const;
  Tensor rsample(const Shape& shape = {}) const override;
  /// kl_divergence(*this, q).
  Tensor divergence_from(const MultivariateNormal& q) const;

  const Tensor loc;         ///< [batch .., K]
  const Tensor scale_tril;  ///< [.., K, K]

 private:
  MultivariateNormal(const Tensor& loc, const Tensor& factor, bool checked);
};

}  // namespace hero::distributions

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

  const Tensor rate;  ///< of the batch shape
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

  const Tensor scale;  ///< of the batch shape
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

  const Tensor df;  ///< of the batch shape
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

/// The Weibull distribution, of cdf 1 - exp(-(x / scale)^concentration) for x >= 0.
class Weibull : public Distribution {
 public:
  /// The two broadcast. Throws an Error unless both are positive.
  Weibull(const Tensor& scale, const Tensor& concentration);
  const char* name() const override { return "Weibull"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor scale, concentration;  ///< of the batch shape

 private:
  explicit Weibull(const std::vector<Tensor>& both);
  Tensor moment(double power) const;
};

/// Pareto's distribution, of cdf 1 - (scale / x)^alpha for x >= scale.
class Pareto : public Distribution {
 public:
  /// The two broadcast. Throws an Error unless both are positive.
  Pareto(const Tensor& scale, const Tensor& alpha);
  const char* name() const override { return "Pareto"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  /// Infinite for alpha <= 1.
  Tensor mean() const override;
  /// Infinite for alpha <= 2.
  Tensor variance() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor scale, alpha;  ///< of the batch shape

 private:
  explicit Pareto(const std::vector<Tensor>& both);
};

/// The distribution of values that exceed a threshold, loc: with z = (x - loc) / scale, of cdf 1 -
/// (1 + concentration z)^(-1 / concentration), which is 1 - exp(-z) for a concentration of 0.
class GeneralizedPareto : public Distribution {
 public:
  /// The three broadcast. Throws an Error unless scale is positive.
  GeneralizedPareto(const Tensor& loc, const Tensor& scale, const Tensor& concentration);
  const char* name() const override { return "GeneralizedPareto"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  /// NaN for a concentration of 1 and more.
  Tensor mean() const override;
  /// NaN for a concentration of 1/2 and more.
  Tensor variance() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor loc, scale, concentration;  ///< of the batch shape

 private:
  explicit GeneralizedPareto(const std::vector<Tensor>& all);
  Tensor exponent(const Tensor& value) const;
  Tensor beyond(const Tensor& exponent) const;
};

/// The distribution of |x| for a Cauchy x around 0, whose mean and variance are infinite.
class HalfCauchy : public Distribution {
 public:
  /// Throws an Error unless scale is positive.
  explicit HalfCauchy(const Tensor& scale);
  const char* name() const override { return "HalfCauchy"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override { return mean(); }
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor scale;  ///< of the batch shape
};

/// Kumaraswamy's distribution on [0, 1], of cdf 1 - (1 - x^concentration1)^concentration0.
class Kumaraswamy : public Distribution {
 public:
  /// The two broadcast. Throws an Error unless both are positive.
  Kumaraswamy(const Tensor& concentration1, const Tensor& concentration0);
  const char* name() const override { return "Kumaraswamy"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor concentration1, concentration0;  ///< of the batch shape

 private:
  explicit Kumaraswamy(const std::vector<Tensor>& both);
  Tensor moment(double power) const;
};

/// The distribution of 1 / x for an x of Gamma(concentration, rate).
class InverseGamma : public Distribution {
 public:
  /// The two broadcast. Throws an Error unless both are positive.
  InverseGamma(const Tensor& concentration, const Tensor& rate);
  const char* name() const override { return "InverseGamma"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  /// Infinite for a concentration of 1 and less.
  Tensor mean() const override;
  /// Infinite for a concentration of 2 and less.
  Tensor variance() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Gamma base;  ///< the distribution of 1 / x
};

/// The F-distribution: of the ratio of two Chi2, each divided by its degrees of freedom.
class FisherSnedecor : public Distribution {
 public:
  /// The two broadcast. Throws an Error unless both are positive.
  FisherSnedecor(const Tensor& df1, const Tensor& df2);
  const char* name() const override { return "FisherSnedecor"; }
  Tensor log_prob(const Tensor& value) const override;
  /// NaN for df2 <= 2.
  Tensor mean() const override;
  /// NaN for df2 <= 4.
  Tensor variance() const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor df1, df2;  ///< of the batch shape

 private:
  explicit FisherSnedecor(const std::vector<Tensor>& both);
};

/// The von Mises distribution of angles in [-pi, pi), of density proportional to exp(concentration
/// cos(x - loc)). Draws are made by the host (Best and Fisher, 1979), without gradients.
class VonMises : public Distribution {
 public:
  /// The two broadcast. Throws an Error unless concentration is positive.
  VonMises(const Tensor& loc, const Tensor& concentration);
  const char* name() const override { return "VonMises"; }
  Tensor log_prob(const Tensor& value) const override;
  /// The angle loc.
  Tensor mean() const override { return loc; }
  /// That of angles: 1 - the length of the mean vector.
  Tensor variance() const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor loc, concentration;  ///< of the batch shape

 private:
  explicit VonMises(const std::vector<Tensor>& both);
  Tensor draw(const Shape& shape) const override;
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

/// The covariance of a MultivariateNormal or a Wishart; give one of the three matrices, [.., K, K],
/// as in PyTorch.
struct CovarianceMatrix {
  Tensor covariance_matrix = {};  ///< symmetric and positive definite
  Tensor precision_matrix = {};   ///< the inverse of the covariance
  Tensor scale_tril = {};         ///< its lower factor L, of covariance L L^T: the cheapest
};

/// The normal distribution of vectors of K numbers, an event.
class MultivariateNormal : public Distribution {
 public:
  /// loc is [.., K]; batches broadcast. Throws an Error unless one matrix is given and is symmetric
  /// and positive definite, scale_tril lower triangular with a positive diagonal.
  MultivariateNormal(const Tensor& loc, const CovarianceMatrix& spread);
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

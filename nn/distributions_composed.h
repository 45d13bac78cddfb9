#pragma once
// Distributions made of others: Independent, MixtureSameFamily, TransformedDistribution with its
// transforms, LogisticNormal, LowRankMultivariateNormal, and the matrices Wishart and
// LKJCholesky. They keep copies of the distributions that they are made of.
//
//   // A policy whose actions lie in (-1, 1), as SAC draws them (Haarnoja et al., 2018).
//   const TransformedDistribution policy(Independent(Normal(mean, stddev), 1), TanhTransform());
//   const auto [action, log_prob] = policy.rsample_with_log_prob();
#include <concepts>
#include <memory>
#include <utility>

#include <hero/nn/distributions_continuous.h>

namespace hero::distributions {

/// A distribution whose last n batch dimensions are one event: log_prob() and entropy() are
/// summed over them.
class Independent : public Distribution {
 public:
  /// Throws an Error unless the batch has as many dimensions.
  template <std::derived_from<Distribution> D>
  Independent(const D& of, int64_t n) : Independent(std::make_shared<const D>(of), n) {}
  /// The same, of a distribution that is shared.
  Independent(std::shared_ptr<const Distribution> of, int64_t n);
  const char* name() const override { return "Independent"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override { return base->mean(); }
  Tensor variance() const override { return base->variance(); }
  Tensor stddev() const override { return base->stddev(); }
  Tensor rsample(const Shape& shape = {}) const override { return base->rsample(shape); }
  DrawWithLogProb rsample_with_log_prob(const Shape& shape = {}) const override;

  const std::shared_ptr<const Distribution> base;
  const int64_t dims;  ///< PyTorch's reinterpreted_batch_ndims

 private:
  Tensor draw(const Shape& shape) const override { return base->sample(shape); }
};

/// A mixture of K distributions of one kind, which are the last dimension of their batch.
class MixtureSameFamily : public Distribution {
 public:
  /// The mixture's K probabilities broadcast with the components' batch [.., K].
  template <std::derived_from<Distribution> D>
  MixtureSameFamily(const Categorical& m, const D& of)
      : MixtureSameFamily(m, std::make_shared<const D>(of)) {}
  /// The same, of a distribution that is shared.
  MixtureSameFamily(const Categorical& m, std::shared_ptr<const Distribution> of);
  const char* name() const override { return "MixtureSameFamily"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Categorical mixture;
  const std::shared_ptr<const Distribution> components;

 private:
  Tensor draw(const Shape& shape) const override;
  Tensor averaged(const Tensor& of_components, int events) const;
};

/// An invertible function of each element, or of the last dimensions together.
class Transform {
 public:
  virtual ~Transform() = default;
  virtual Tensor operator()(const Tensor& x) const = 0;
  virtual Tensor inverse(const Tensor& y) const = 0;
  /// log |dy/dx| at x, where y = (*this)(x).
  virtual Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const = 0;
  /// How many of the last dimensions of x, and of y, are transformed together;
  /// log_abs_det_jacobian() lacks those of x.
  virtual std::pair<int, int> event_dims() const { return {0, 0}; }
  /// The shape of y for one of x.
  virtual Shape forward_shape(const Shape& shape) const { return shape; }
  /// The values lie between these two.
  virtual std::pair<double, double> range() const;
  /// 1 where the function rises and -1 where it falls; undefined for 1 everywhere.
  virtual Tensor sign() const { return {}; }
  /// True if the other is the same function.
  virtual bool same_as(const Transform& other) const;
};

/// loc + scale x.
class AffineTransform : public Transform {
 public:
  /// Throws an Error where scale is 0.
  AffineTransform(const Tensor& loc, const Tensor& scale);
  /// The same for numbers, which take the dtype of what is transformed.
  AffineTransform(double loc, double scale);
  Tensor operator()(const Tensor& x) const override;
  Tensor inverse(const Tensor& y) const override;
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const override;
  Tensor sign() const override;
  bool same_as(const Transform& other) const override;

  const Tensor loc, scale;
};

/// exp(x).
class ExpTransform : public Transform {
 public:
  Tensor operator()(const Tensor& x) const override;
  Tensor inverse(const Tensor& y) const override;
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const override;
  std::pair<double, double> range() const override;
};

/// sigmoid(x), kept below 1 and above 0.
class SigmoidTransform : public Transform {
 public:
  Tensor operator()(const Tensor& x) const override;
  Tensor inverse(const Tensor& y) const override;
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const override;
  std::pair<double, double> range() const override;
};

/// tanh(x). The inverse of -1 and 1, to which large x are rounded, is infinite: draw with
/// rsample_with_log_prob(), which needs no inverse.
class TanhTransform : public Transform {
 public:
  Tensor operator()(const Tensor& x) const override;
  Tensor inverse(const Tensor& y) const override;
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const override;
  std::pair<double, double> range() const override;
};

/// x^exponent for positive x.
class PowerTransform : public Transform {
 public:
  /// Throws an Error where the exponent is 0.
  explicit PowerTransform(const Tensor& exponent);
  /// The same for a number.
  explicit PowerTransform(double exponent);
  Tensor operator()(const Tensor& x) const override;
  Tensor inverse(const Tensor& y) const override;
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const override;
  std::pair<double, double> range() const override;
  Tensor sign() const override;
  bool same_as(const Transform& other) const override;

  const Tensor exponent;
};

/// log(1 + exp(x)).
class SoftplusTransform : public Transform {
 public:
  Tensor operator()(const Tensor& x) const override;
  Tensor inverse(const Tensor& y) const override;
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const override;
  std::pair<double, double> range() const override;
};

/// K - 1 numbers to K positive ones of sum 1, by breaking a stick, as LogisticNormal does.
class StickBreakingTransform : public Transform {
 public:
  Tensor operator()(const Tensor& x) const override;
  Tensor inverse(const Tensor& y) const override;
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const override;
  std::pair<double, double> range() const override;
  std::pair<int, int> event_dims() const override { return {1, 1}; }
  Shape forward_shape(const Shape& shape) const override;
};

/// The last dimensions in another shape of as many elements.
class ReshapeTransform : public Transform {
 public:
  /// Throws an Error where the shapes have different numbers of elements.
  ReshapeTransform(const Shape& in_shape, const Shape& out_shape);
  Tensor operator()(const Tensor& x) const override;
  Tensor inverse(const Tensor& y) const override;
  Tensor log_abs_det_jacobian(const Tensor& x, const Tensor& y) const override;
  std::pair<int, int> event_dims() const override { return {in_shape.size(), out_shape.size()}; }
  Shape forward_shape(const Shape& shape) const override;
  bool same_as(const Transform& other) const override;

  const Shape in_shape, out_shape;
};

/// The distribution of another distribution's draws after transforms, which are applied one after
/// the other. If a transform acts on more dimensions together than the base's events have, the last
/// batch dimensions become dimensions of the event.
class TransformedDistribution : public Distribution {
 public:
  using Transforms = std::vector<std::shared_ptr<const Transform>>;

  /// For transforms in the order in which they are applied. Parameters of transforms must broadcast
  /// to the shape of what they transform.
  template <std::derived_from<Distribution> D, std::derived_from<Transform>... T>
  requires(sizeof...(T) > 0) TransformedDistribution(const D& of, const T&... list)
      : TransformedDistribution(std::make_shared<const D>(of),
                                Transforms{std::make_shared<const T>(list)...}) {}
  /// The same, of a distribution and transforms that are shared.
  TransformedDistribution(const std::shared_ptr<const Distribution>& of, const Transforms& list);
  const char* name() const override { return "TransformedDistribution"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor icdf(const Tensor& probability) const override;
  Tensor rsample(const Shape& shape = {}) const override;
  DrawWithLogProb rsample_with_log_prob(const Shape& shape = {}) const override;

  const std::shared_ptr<const Distribution> base;
  const Transforms transforms;

 private:
  Tensor draw(const Shape& shape) const override;
  struct EventDims {
    int first, last;  // dimensions of an event before all transforms and after them
    EventDims(const Distribution& base, const Transforms& transforms);
  };
  TransformedDistribution(std::shared_ptr<const Distribution> of, Transforms list,
                          const EventDims& dims, const Shape& shape);
  Tensor rising(const Tensor& probability) const;

  int first_dims_;
};

/// A distribution over vectors of K positive numbers of sum 1 (an event), made from K - 1 normal
/// numbers by breaking a stick: the first part is the sigmoid of (the first number less log(K -
/// 1)), the second is the sigmoid of (the second number less log(K - 2)) times the rest of the
/// stick, and so on.
class LogisticNormal : public Distribution {
 public:
  /// loc and scale, those of the normal numbers, broadcast to [.., K - 1]. Throws an Error unless
  /// scale is positive.
  LogisticNormal(const Tensor& l, const Tensor& s) : LogisticNormal(Normal(l, s)) {}
  const char* name() const override { return "LogisticNormal"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Normal base;  ///< the distribution of the normal numbers

 private:
  explicit LogisticNormal(const Normal& numbers);
};

/// The normal distribution of vectors of K numbers, an event, whose covariance is W W^T + diag(D):
/// R directions and a variance of each number, for K much larger than R.
class LowRankMultivariateNormal : public Distribution {
 public:
  /// loc is [.., K], cov_factor W [.., K, R], cov_diag D [.., K]; batches broadcast. Throws an
  /// Error unless D is positive.
  LowRankMultivariateNormal(const Tensor& loc, const Tensor& cov_factor, const Tensor& cov_diag);
  const char* name() const override { return "LowRankMultivariateNormal"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override { return loc; }
  Tensor variance() const override;
  Tensor covariance_matrix() const;
  Tensor precision_matrix() const;
  /// The lower factor of the covariance, [.., K, K].
  Tensor scale_tril() const;
  Tensor rsample(const Shape& shape = {}) const override;
  /// kl_divergence(*this, q).
  Tensor divergence_from(const LowRankMultivariateNormal& q) const;

  const Tensor loc;         ///< [batch .., K]
  const Tensor cov_factor;  ///< [.., K, R]
  const Tensor cov_diag;    ///< [batch .., K]

 private:
  Tensor capacitance() const;
  Tensor log_volume() const;
  Tensor squared_length(const Tensor& columns) const;
};

/// The Wishart distribution over symmetric positive definite matrices [K, K], an event: of the sum
/// of df matrices x x^T for x of a MultivariateNormal around 0, where df need not be whole.
class Wishart : public Distribution {
 public:
  /// df broadcasts with the matrices' batch. Throws an Error unless df exceeds K - 1, and as
  /// MultivariateNormal does.
  Wishart(const Tensor& df, const CovarianceMatrix& spread);
  const char* name() const override { return "Wishart"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const Tensor df;          ///< of the batch shape
  const Tensor scale_tril;  ///< [.., K, K], the factor of the matrix

 private:
  Wishart(const Tensor& degrees, const Tensor& factor, bool checked);
  Tensor log_normalizer() const;
};

/// The lower Cholesky factors [K, K], an event, of random correlation matrices, of density
/// proportional to det(matrix)^(concentration - 1). Lewandowski, Kurowicka and Joe, 2009.
class LKJCholesky : public Distribution {
 public:
  /// For K of 2 and more. Throws an Error unless concentration is positive.
  LKJCholesky(int64_t dim, const Tensor& concentration);
  const char* name() const override { return "LKJCholesky"; }
  Tensor log_prob(const Tensor& value) const override;
  Tensor rsample(const Shape& shape = {}) const override;

  const int64_t dim;  ///< K
  const Tensor concentration;

 private:
  Tensor draw(const Shape& shape) const override;
};

}  // namespace hero::distributions

// Normal vectors of few directions, by the matrix C = I + W^T D^-1 W [R, R] with the factor L: the
// determinant of the covariance is det(C) det(D), and its inverse D^-1 - D^-1 W C^-1 W^T D^-1
// (Woodbury's identity).
#include <cmath>
#include <numbers>

#include <hero/autograd/ops.h>
#include <hero/nn/distributions/parameters.h>
#include <hero/nn/distributions_composed.h>

namespace hero::distributions {

namespace {

constexpr auto kName = "LowRankMultivariateNormal";

Shape batch_of(const Tensor& loc, const Tensor& factor, const Tensor& diag) {
  check(loc.defined() && factor.defined() && diag.defined(), kName, ": a parameter is undefined");
  check(loc.ndim() >= 1 && factor.ndim() >= 2 && diag.ndim() >= 1 &&
            factor.size(-2) == loc.size(-1) && diag.size(-1) == loc.size(-1),
        kName, ": loc, cov_factor and cov_diag should be [.., K], [.., K, R] and [.., K]: got ",
        loc.shape(), ", ", factor.shape(), " and ", diag.shape());
  const Shape vectors = broadcast_shapes(kName, loc.shape(), diag.shape());
  return without_last(broadcast_shapes(kName, vectors, without_last(factor.shape())));
}

}  // namespace

LowRankMultivariateNormal::LowRankMultivariateNormal(const Tensor& l, const Tensor& factor,
                                                     const Tensor& diag)
    : Distribution(batch_of(l, factor, diag), {l.size(-1)}),
      loc(expand(l, extended({}))),
      cov_factor(factor),
      cov_diag(expand(check_positive(kName, "cov_diag", diag), extended({}))) {}

Tensor LowRankMultivariateNormal::capacitance() const {
  const Tensor scaled = cov_factor / unsqueeze(cov_diag, -1);
  return cholesky(matmul(transpose(cov_factor, -2, -1), scaled) +
                  eye(cov_factor.size(-1), beside(loc)));
}

// Half the logarithm of the covariance's determinant.
Tensor LowRankMultivariateNormal::log_volume() const {
  return log_determinant(capacitance()) + 0.5 * sum(log(cov_diag), {-1});
}

// The sum of x^T covariance^-1 x over the columns x of [.., K, n].
Tensor LowRankMultivariateNormal::squared_length(const Tensor& columns) const {
  const Tensor scaled = columns / unsqueeze(cov_diag, -1);
  const Tensor inner = matmul(transpose(cov_factor, -2, -1), scaled);
  return sum(columns * scaled, {-2, -1}) -
         sum(square(solve_triangular(capacitance(), inner, {.upper = false})), {-2, -1});
}

Tensor LowRankMultivariateNormal::log_prob(const Tensor& value) const {
  const double constant = static_cast<double>(loc.size(-1)) * std::log(2.0 * std::numbers::pi);
  return -0.5 * (squared_length(unsqueeze(value - loc, -1)) + constant) - log_volume();
}

Tensor LowRankMultivariateNormal::entropy() const {
  const double k = static_cast<double>(loc.size(-1));
  return expand(log_volume() + 0.5 * k * (1.0 + std::log(2.0 * std::numbers::pi)), batch_shape());
}

Tensor LowRankMultivariateNormal::variance() const {
  return expand(sum(square(cov_factor), {-1}) + cov_diag, loc.shape());
}

Tensor LowRankMultivariateNormal::covariance_matrix() const {
  return matmul(cov_factor, transpose(cov_factor, -2, -1)) + diag_embed(cov_diag);
}

Tensor LowRankMultivariateNormal::precision_matrix() const {
  const Tensor scaled = cov_factor / unsqueeze(cov_diag, -1);
  const Tensor half = solve_triangular(capacitance(), transpose(scaled, -2, -1), {.upper = false});
  return diag_embed(1.0 / cov_diag) - matmul(transpose(half, -2, -1), half);
}

Tensor LowRankMultivariateNormal::scale_tril() const { return cholesky(covariance_matrix()); }

Tensor LowRankMultivariateNormal::rsample(const Shape& shape) const {
  Shape directions = extended(shape);
  const Tensor apart = sqrt(cov_diag) * randn(directions, beside(loc));
  directions.back() = cov_factor.size(-1);
  const Tensor together = matmul(cov_factor, unsqueeze(randn(directions, beside(loc)), -1));
  return loc + squeeze(together, -1) + apart;
}

// The trace of q's inverse covariance times this one: of the columns of W and of sqrt(D).
Tensor LowRankMultivariateNormal::divergence_from(const LowRankMultivariateNormal& q) const {
  const Tensor trace = q.squared_length(cov_factor) + q.squared_length(diag_embed(sqrt(cov_diag)));
  const Tensor shift = q.squared_length(unsqueeze(q.loc - loc, -1));
  return q.log_volume() - log_volume() + 0.5 * (trace + shift - static_cast<double>(loc.size(-1)));
}

}  // namespace hero::distributions

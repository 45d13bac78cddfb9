#include <cmath>
#include <numbers>

#include <hero/autograd/ops.h>
#include <hero/nn/distributions/parameters.h>
#include <hero/nn/distributions_continuous.h>

namespace hero::distributions {

// The lower triangle of the covariance's factor. That of the inverse of P: with J, which reverses
// the order, J P J = L L^T, so P^-1 = (J L^-T J)(J L^-T J)^T, and J L^-T J is lower again.
Tensor factor_of(const char* name, const CovarianceMatrix& spread) {
  const int count = static_cast<int>(spread.covariance_matrix.defined()) +
                    static_cast<int>(spread.precision_matrix.defined()) +
                    static_cast<int>(spread.scale_tril.defined());
  check(count == 1, name, ": give one of covariance_matrix, precision_matrix and scale_tril");
  const Tensor& given = spread.scale_tril.defined()          ? spread.scale_tril
                        : spread.covariance_matrix.defined() ? spread.covariance_matrix
                                                             : spread.precision_matrix;
  check(given.ndim() >= 2 && given.size(-1) == given.size(-2), name,
        ": the matrix must be [.., K, K]: got ", given.shape());
  broadcast(name, {given});
  const std::string begin = std::string(name) + ": ";
  if (spread.scale_tril.defined()) {
    const Tensor diagonals = diagonal(given, 0, -2, -1);
    check_positive(name, "the diagonal of scale_tril", diagonals);
    check_all(triu(given.detach(), 1) == 0, given,
              (begin + "scale_tril must be 0 above its diagonal").c_str());
    return given;
  }
  const Tensor matrix = given.detach();
  check_all(isclose(matrix, transpose(matrix, -2, -1), 1e-5, 1e-6), matrix,
            (begin + "covariance_matrix and precision_matrix must be symmetric").c_str());
  if (spread.covariance_matrix.defined()) return cholesky(given);
  const Tensor reversed = cholesky(flip(given, {-2, -1}));
  const Tensor unit = eye(given.size(-1), beside(given));
  return flip(transpose(solve_triangular(reversed, unit, {.upper = false}), -2, -1), {-2, -1});
}

Tensor log_determinant(const Tensor& factor) { return sum(log(diagonal(factor, 0, -2, -1)), {-1}); }

namespace {

Shape vector_shape(const Tensor& loc, const Tensor& factor) {
  check(loc.defined() && loc.ndim() >= 1, "MultivariateNormal: loc must be [.., K]");
  return broadcast_shapes("MultivariateNormal", loc.shape(), without_last(factor.shape()));
}

Tensor solved(const Tensor& factor, const Tensor& columns) {
  return solve_triangular(factor, columns, {.upper = false});
}

// The squared length of L^-1 x.
Tensor squared_length(const Tensor& factor, const Tensor& x) {
  return sum(square(squeeze(solved(factor, unsqueeze(x, -1)), -1)), {-1});
}

}  // namespace

MultivariateNormal::MultivariateNormal(const Tensor& l, const CovarianceMatrix& spread)
    : MultivariateNormal(l, factor_of("MultivariateNormal", spread), true) {}

MultivariateNormal::MultivariateNormal(const Tensor& l, const Tensor& factor, bool /*checked*/)
    : Distribution(without_last(vector_shape(l, factor)), {factor.size(-1)}),
      loc(expand(l, extended({}))),
      scale_tril(factor) {}

Tensor MultivariateNormal::log_prob(const Tensor& value) const {
  const double constant = static_cast<double>(loc.size(-1)) * std::log(2.0 * std::numbers::pi);
  return -0.5 * (squared_length(scale_tril, value - loc) + constant) - log_determinant(scale_tril);
}

Tensor MultivariateNormal::entropy() const {
  const double k = static_cast<double>(loc.size(-1));
  return expand(log_determinant(scale_tril) + 0.5 * k * (1.0 + std::log(2.0 * std::numbers::pi)),
                batch_shape());
}

Tensor MultivariateNormal::variance() const {
  return expand(sum(square(scale_tril), {-1}), loc.shape());
}

Tensor MultivariateNormal::covariance_matrix() const {
  return matmul(scale_tril, transpose(scale_tril, -2, -1));
}

Tensor MultivariateNormal::precision_matrix() const { return cholesky_inverse(scale_tril); }

Tensor MultivariateNormal::rsample(const Shape& shape) const {
  const Tensor numbers = randn(extended(shape), beside(loc));
  return loc + squeeze(matmul(scale_tril, unsqueeze(numbers, -1)), -1);
}

Tensor MultivariateNormal::divergence_from(const MultivariateNormal& q) const {
  const Tensor ratio = sum(square(solved(q.scale_tril, scale_tril)), {-2, -1});
  const Tensor shift = squared_length(q.scale_tril, q.loc - loc);
  return log_determinant(q.scale_tril) - log_determinant(scale_tril) +
         0.5 * (ratio + shift - static_cast<double>(loc.size(-1)));
}

}  // namespace hero::distributions

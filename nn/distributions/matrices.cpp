// Distributions of matrices.
#include <cmath>
#include <numbers>

#include <hero/autograd/ops.h>
#include <hero/nn/distributions/parameters.h>
#include <hero/nn/distributions_composed.h>

namespace hero::distributions {

namespace {

double real(int64_t value) { return static_cast<double>(value); }

Tensor turned(const Tensor& x) { return transpose(x, -2, -1); }

// 0, 1, .., n - 1 in the dtype of x.
Tensor steps(int64_t n, const Tensor& x) { return arange(n, beside(x)); }

}  // namespace

Wishart::Wishart(const Tensor& d, const CovarianceMatrix& spread)
    : Wishart(d, factor_of("Wishart", spread), true) {}

Wishart::Wishart(const Tensor& degrees, const Tensor& factor, bool /*checked*/)
    : Distribution(
          broadcast_shapes("Wishart", degrees.shape(), without_last(without_last(factor.shape()))),
          {factor.size(-1), factor.size(-1)}),
      df(expand(broadcast("Wishart", {degrees})[0], batch_shape())),
      scale_tril(factor) {
  check_all(df > real(factor.size(-1) - 1), df, "Wishart: df must exceed K - 1");
}

// Of the density, but for the exponential function and the power of the determinant.
Tensor Wishart::log_normalizer() const {
  const int64_t k = scale_tril.size(-1);
  return df * (log_determinant(scale_tril) + 0.5 * real(k) * std::numbers::ln2) +
         multigammaln(0.5 * df, k);
}

Tensor Wishart::log_prob(const Tensor& value) const {
  const double k = real(scale_tril.size(-1));
  const Tensor half = solve_triangular(scale_tril, value, {.upper = false});
  const Tensor whole = solve_triangular(scale_tril, turned(half), {.upper = false});
  const Tensor trace = sum(diagonal(whole, 0, -2, -1), {-1});
  const Tensor log_det = 2 * log_determinant(cholesky(value));
  return 0.5 * ((df - (k + 1)) * log_det - trace) - log_normalizer();
}

Tensor Wishart::entropy() const {
  const int64_t k = scale_tril.size(-1);
  const Tensor halves = unsqueeze(0.5 * df, -1) - 0.5 * steps(k, df);
  // The mean of the logarithm of the determinant.
  const Tensor log_det =
      sum(digamma(halves), {-1}) + 2 * log_determinant(scale_tril) + real(k) * std::numbers::ln2;
  return log_normalizer() - 0.5 * (df - real(k + 1)) * log_det + 0.5 * real(k) * df;
}

Tensor Wishart::mean() const {
  return unsqueeze(unsqueeze(df, -1), -1) * matmul(scale_tril, turned(scale_tril));
}

Tensor Wishart::variance() const {
  const Tensor v = matmul(scale_tril, turned(scale_tril)), d = diagonal(v, 0, -2, -1);
  return unsqueeze(unsqueeze(df, -1), -1) * (square(v) + unsqueeze(d, -1) * unsqueeze(d, -2));
}

// Bartlett's decomposition: normal numbers below roots of chi-squared ones.
Tensor Wishart::rsample(const Shape& shape) const {
  const int64_t k = scale_tril.size(-1);
  const Chi2 squares(unsqueeze(df, -1) - steps(k, df));
  const Tensor below = tril(randn(extended(shape), beside(df)), -1);
  const Tensor factor = matmul(scale_tril, below + diag_embed(sqrt(squares.rsample(shape))));
  return matmul(factor, turned(factor));
}

LKJCholesky::LKJCholesky(int64_t k, const Tensor& c)
    : Distribution(broadcast("LKJCholesky", {c})[0].shape(), {k, k}), dim(k), concentration(c) {
  check(k >= 2, "LKJCholesky: dim must be 2 or more: ", k);
  check_positive("LKJCholesky", "concentration", concentration);
}

Tensor LKJCholesky::log_prob(const Tensor& value) const {
  const double rows = real(dim - 1);
  const Tensor diagonals = diagonal(value, 0, -2, -1).narrow(-1, 1, dim - 1);
  const Tensor powers =
      unsqueeze(2 * (concentration - 1), -1) + (real(dim - 2) - steps(dim - 1, concentration));
  const Tensor a = concentration + 0.5 * rows;
  return sum(powers * log(diagonals), {-1}) - (0.5 * rows * std::log(std::numbers::pi) +
                                               multigammaln(a - 0.5, dim - 1) - rows * lgamma(a));
}

Tensor LKJCholesky::rsample(const Shape& /*shape*/) const {
  fail("LKJCholesky: draws have no gradient; use sample() and log_prob()");
}

// Row i is a direction of i numbers times the root of a beta draw, and what is missing to length 1.
Tensor LKJCholesky::draw(const Shape& shape) const {
  const Tensor half = 0.5 * steps(dim - 1, concentration);
  const Tensor middle = unsqueeze(concentration, -1) + 0.5 * real(dim - 2);
  const Tensor y = Beta(half + 0.5, middle - half).sample(shape);  // of the rows from 1 on
  Shape whole = extended(shape);
  whole[whole.size() - 2] = dim - 1;
  const Tensor numbers = tril(randn(whole, beside(concentration)), 0);
  const Tensor length = sqrt(sum(square(numbers), {-1}, true));
  const Tensor sides = unsqueeze(sqrt(y), -1) * numbers / length;
  const Tensor diagonals = pad(sqrt(1 - y), {1, 0}, PadMode::constant, 1.0);
  return pad(sides, {0, 0, 1, 0}) + diag_embed(diagonals);  // behind a first row of zeros
}

}  // namespace hero::distributions

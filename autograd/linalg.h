#pragma once
// Solvers and decompositions of matrices: the last two dimensions; leading dimensions are batches.
// float32 and float64. All have derivatives of any order.
#include <hero/autograd/tensor.h>

namespace hero {

/// X with a X = b: a [.., N, N], b [.., N, K], batches broadcast; or b [.., N] with a's batch (or
/// one vector), giving [.., N]. An Error names the first singular matrix.
Tensor solve(const Tensor& a, const Tensor& b);

/// The inverse of a [.., N, N]; an Error names the first singular matrix.
Tensor inv(const Tensor& a);

/// The determinant [..] of a [.., N, N]; its derivative, the matrix of cofactors, also exists where
/// a is singular.
Tensor det(const Tensor& a);

struct SignLogDet {
  Tensor sign;       ///< -1, 0 or 1, without gradient
  Tensor logabsdet;  ///< -inf for a singular matrix, where it has no derivative
};
/// Sign and logarithm of the determinant of a [.., N, N].
SignLogDet slogdet(const Tensor& a);

/// The lower triangular L with a = L L^T, of symmetric a; only the lower triangle is read, and the
/// gradient is symmetric. An Error names the first matrix that is not positive definite.
/// Derivative: Murray, arXiv 1602.07527.
Tensor cholesky(const Tensor& a);

struct QR {
  Tensor q;  ///< [.., M, min(M, N)], orthonormal columns
  Tensor r;  ///< [.., min(M, N), N], upper triangular
};
/// Reduced QR decomposition of a [.., M, N] by Householder reflections; the derivative needs the
/// first min(M, N) columns to be independent. Derivative: Walter and Lehmann, arXiv 1009.6112.
QR qr(const Tensor& a);

/// X that minimises |a X - b|: a [.., M, N] with M >= N, b [.., M, K], batches broadcast; or one
/// vector b [M], giving [.., N]. An Error names the first matrix without full column rank.
Tensor lstsq(const Tensor& a, const Tensor& b);

}  // namespace hero

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

/// \name Decompositions into values and directions
/// \{
struct SVD {
  Tensor u;   ///< [.., M, K], orthonormal columns; K = min(M, N)
  Tensor s;   ///< [.., K], descending
  Tensor vh;  ///< [.., K, N], orthonormal rows
};
/// a = u diag(s) vh, of a [.., M, N]: torch.linalg.svd with full_matrices = False. Derivatives need
/// different singular values, and those of u and vh none that is 0; what depends on the signs of
/// u's columns has none. Townsend, "Differentiating the singular value decomposition", 2016.
SVD svd(const Tensor& a);
Tensor svdvals(const Tensor& a);
struct Eigh {
  Tensor eigenvalues;   ///< [.., N], ascending
  Tensor eigenvectors;  ///< [.., N, N], orthonormal columns
};
/// Of symmetric a [.., N, N], of which the lower triangle is read; the gradient is symmetric. That
/// of eigenvectors needs different eigenvalues.
Eigh eigh(const Tensor& a);
Tensor eigvalsh(const Tensor& a);
/// \}

/// \name Inverses and systems
/// \{
/// Moore and Penrose's inverse [.., N, M] of a [.., M, N]: singular values up to rtol times the
/// largest count as 0; rtol is max(M, N) times the dtype's epsilon when absent. Derivative: Golub
/// and Pereyra, SIAM J. Numer. Anal. 10, 1973.
Tensor pinv(const Tensor& a, std::optional<double> rtol = {});
struct TriangularOptions {
  bool upper = true;           ///< which triangle of a is read
  bool left = true;            ///< a X = b; else X a = b
  bool unitriangular = false;  ///< a's diagonal counts as 1
};
/// X with a X = b, a [.., N, N] triangular, b [.., N, K]; batches broadcast. A 0 on the diagonal
/// gives infinities and NaN.
Tensor solve_triangular(const Tensor& a, const Tensor& b, const TriangularOptions& options = {});
enum class Triangle { lower, upper };
/// The factor of a = U^T U for Triangle::upper, of which the upper triangle is read.
Tensor cholesky(const Tensor& a, Triangle triangle);
/// X with a X = b from the factor of a that cholesky() gives.
Tensor cholesky_solve(const Tensor& b, const Tensor& factor, Triangle triangle = Triangle::lower);
/// The inverse of a from its factor.
Tensor cholesky_inverse(const Tensor& factor, Triangle triangle = Triangle::lower);
/// \}

/// \name Numbers of matrices
/// \{
/// log(det(a)); NaN where the determinant is negative.
Tensor logdet(const Tensor& a);
/// How many singular values are above rtol times the largest, int64; rtol as for pinv().
Tensor matrix_rank(const Tensor& a, std::optional<double> rtol = {});
enum class MatrixNorm { fro, nuc, inf, one, two };
/// Of the last two dimensions: the root of the sum of squares, the sum of singular values, the
/// largest sum of magnitudes of a row, that of a column, the largest singular value.
Tensor matrix_norm(const Tensor& a, MatrixNorm which = MatrixNorm::fro);
/// \}

}  // namespace hero

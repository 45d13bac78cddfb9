#pragma once
// Solvers and decompositions of matrices, which are the last two dimensions; leading dimensions are
// batches. Matrices are float32 or float64. All functions have derivatives of any order.
#include <hero/autograd/tensor.h>

namespace hero {

/// The solution X of a X = b, for a [.., N, N] and b [.., N, K], whose batches broadcast; or for b
/// [.., N] with a's batch (or one vector), which gives [.., N]. Throws an Error that names the
/// first singular matrix.
Tensor solve(const Tensor& a, const Tensor& b);
/// The side of the unknown on which the matrix stands.
enum class SolveSide { left, right };
/// The same, or for SolveSide::right the solution X of X a = b, for b [.., K, N].
Tensor solve(const Tensor& a, const Tensor& b, SolveSide side);

/// The inverse of a [.., N, N]. Throws an Error that names the first singular matrix.
Tensor inv(const Tensor& a);

/// The determinant [..] of a [.., N, N]. Its derivative, the matrix of cofactors, also exists if a
/// is singular.
Tensor det(const Tensor& a);

/// What slogdet() returns.
struct SignLogDet {
  Tensor sign;       ///< -1, 0 or 1, without gradient
  Tensor logabsdet;  ///< -inf for a singular matrix, which has no derivative
};
/// Sign and logarithm of the determinant of a [.., N, N].
SignLogDet slogdet(const Tensor& a);

/// The lower triangular L with a = L L^T, for symmetric a, of which only the lower triangle is
/// read; the gradient is symmetric. Throws an Error that names the first matrix that is not
/// positive definite. Derivative: Murray, arXiv 1602.07527.
Tensor cholesky(const Tensor& a);

/// What qr() returns.
struct QR {
  Tensor q;  ///< [.., M, min(M, N)], orthonormal columns
  Tensor r;  ///< [.., min(M, N), N], upper triangular
};
/// The reduced QR decomposition of a [.., M, N], by Householder reflections. The derivative exists
/// if the first min(M, N) columns are independent. Derivative: Walter and Lehmann, arXiv 1009.6112.
QR qr(const Tensor& a);
/// What qr() computes.
enum class QRMode {
  reduced,   ///< q [.., M, min(M, N)] and r [.., min(M, N), N]
  complete,  ///< q [.., M, M] and r [.., M, N], without derivative if M > N
  r          ///< r alone, without derivative; q is undefined
};
/// The same in this mode.
QR qr(const Tensor& a, QRMode mode);

/// The X that minimises |a X - b|, for a [.., M, N] with M >= N and b [.., M, K], whose batches
/// broadcast; or for one vector b [M], which gives [.., N]. Throws an Error that names the first
/// matrix without full column rank.
Tensor lstsq(const Tensor& a, const Tensor& b);

/// \name Singular values and eigenvalues
/// \{
/// What svd() returns.
struct SVD {
  Tensor u;   ///< [.., M, K], orthonormal columns; K = min(M, N)
  Tensor s;   ///< [.., K], descending
  Tensor vh;  ///< [.., K, N], orthonormal rows
};
/// The singular value decomposition a = u diag(s) vh of a [.., M, N], like torch.linalg.svd with
/// full_matrices = False. Derivatives exist if all singular values are different, those of u and vh
/// if none is 0, too; what depends on the signs of u's columns has no derivative. Townsend,
/// "Differentiating the singular value decomposition", 2016.
SVD svd(const Tensor& a);
/// Options of svd().
struct SVDOptions {
  /// True: u is [.., M, M] and vh is [.., N, N]. The further columns and rows complete them to
  /// orthonormal bases, and have no derivative.
  bool full_matrices = false;
};
/// The same with options.
SVD svd(const Tensor& a, const SVDOptions& options);
/// The singular values [.., min(M, N)] alone, descending.
Tensor svdvals(const Tensor& a);
/// What eigh() returns.
struct Eigh {
  Tensor eigenvalues;   ///< [.., N], ascending
  Tensor eigenvectors;  ///< [.., N, N], orthonormal columns
};
/// Eigenvalues and eigenvectors of symmetric a [.., N, N], of which only the lower triangle is
/// read; the gradient is symmetric. The gradient of eigenvectors exists if all eigenvalues are
/// different.
Eigh eigh(const Tensor& a);
/// The eigenvalues [.., N] alone, ascending.
Tensor eigvalsh(const Tensor& a);
/// Which triangle of a matrix is read, or which factor is returned.
enum class Triangle { lower, upper };
/// The same, where this triangle of a is read.
Eigh eigh(const Tensor& a, Triangle triangle);
Tensor eigvalsh(const Tensor& a, Triangle triangle);
/// \}

/// \name Inverses and systems
/// \{
/// The Moore-Penrose pseudoinverse [.., N, M] of a [.., M, N]. Singular values up to rtol times the
/// largest one count as 0; when absent, rtol is max(M, N) times the dtype's machine epsilon.
/// Derivative: Golub and Pereyra, SIAM J. Numer. Anal. 10, 1973.
Tensor pinv(const Tensor& a, std::optional<double> rtol = {});
/// Options of solve_triangular().
struct TriangularOptions {
  bool upper = true;           ///< which triangle of a is read
  bool left = true;            ///< true: solve a X = b; false: solve X a = b
  bool unitriangular = false;  ///< true: the diagonal of a counts as 1
};
/// The solution X of a X = b for triangular a [.., N, N] and b [.., N, K]; batches broadcast. A 0
/// on the diagonal gives infinities and NaN.
Tensor solve_triangular(const Tensor& a, const Tensor& b, const TriangularOptions& options = {});
/// The factor L of a = L L^T, or for Triangle::upper the factor U of a = U^T U; only that triangle
/// of a is read.
Tensor cholesky(const Tensor& a, Triangle triangle);
/// The solution X of a X = b, given the factor of a that cholesky() returns.
Tensor cholesky_solve(const Tensor& b, const Tensor& factor, Triangle triangle = Triangle::lower);
/// The inverse of a matrix, given the factor that cholesky() returns.
Tensor cholesky_inverse(const Tensor& factor, Triangle triangle = Triangle::lower);
/// The inverse with respect to tensordot over `ind` dimensions: the product of the first `ind`
/// sizes of a is that of the others, and the result has the others first.
Tensor tensorinv(const Tensor& a, int64_t ind = 2);
/// The solution x of tensordot(a, x, x.ndim()) = b, where the shape of a is that of b and then that
/// of x. `dims` of a, if given, are moved to its end first.
Tensor tensorsolve(const Tensor& a, const Tensor& b, const Dims& dims = {});
/// \}

/// \name Numbers that describe a matrix
/// \{
/// log(det(a)); NaN if the determinant is negative.
Tensor logdet(const Tensor& a);
/// The number of singular values above rtol times the largest one, int64; rtol is as in pinv().
Tensor matrix_rank(const Tensor& a, std::optional<double> rtol = {});
/// The p-norm of all elements, or of vectors along dims: norm().
Tensor vector_norm(const Tensor& x, double p = 2.0, const Dims& dims = {}, bool keepdim = false);
/// Which norm matrix_norm() computes.
enum class MatrixNorm { fro, nuc, inf, one, two };
/// A norm of the matrices in the last two dimensions: fro is the root of the sum of squares, nuc
/// the sum of singular values, inf the largest sum of magnitudes in a row, one that in a column,
/// and two the largest singular value.
Tensor matrix_norm(const Tensor& a, MatrixNorm which = MatrixNorm::fro);
/// \}

}  // namespace hero

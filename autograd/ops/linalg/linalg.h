#pragma once
// Solvers and decompositions of matrices, as torch.linalg has them: the last two dimensions are
// matrices, leading ones are batches. Matrices are float32 or float64. All functions have
// derivatives of any order.
#include <optional>

#include <hero/autograd/tensor.h>

namespace hero {

/// \name Systems, determinants and factors
/// \{
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
/// The lower triangular L [.., N, N] with a = L L^T, for symmetric a [.., N, N], of which only the
/// lower triangle is read; the gradient is symmetric. Throws an Error that names the first matrix
/// that is not positive definite. Derivative: Murray, arXiv 1602.07527.
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
/// The X that minimises |a X - b|, and if M < N the shortest of all such X, for a [.., M, N] and b
/// [.., M, K], whose batches broadcast; or for one vector b [M], which gives [.., N]. Throws an
/// Error if a matrix does not have full rank.
Tensor lstsq(const Tensor& a, const Tensor& b);
/// \}

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
/// if, in addition, none is 0. A function that depends on the signs of u's columns has no
/// derivative. Townsend, "Differentiating the singular value decomposition", 2016.
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
/// largest one, or up to atol, count as 0; when absent, rtol is max(M, N) times the dtype's machine
/// epsilon, or 0 if atol is given.
/// Derivative: Golub and Pereyra, SIAM J. Numer. Anal. 10, 1973.
Tensor pinv(const Tensor& a, std::optional<double> rtol = {}, double atol = 0.0);
/// Options of solve_triangular().
struct TriangularOptions {
  bool upper = true;           ///< which triangle of a is read
  bool left = true;            ///< true: solve a X = b; false: solve X a = b
  bool unitriangular = false;  ///< true: the diagonal of a counts as 1
};
/// The solution X of a X = b for triangular a [.., N, N] and b [.., N, K]; batches broadcast. A 0
/// on the diagonal gives infinities and NaN.
Tensor solve_triangular(const Tensor& a, const Tensor& b, const TriangularOptions& options = {});
/// The factor L of a [.., N, N] = L L^T, or for Triangle::upper the factor U of a = U^T U; only
/// that triangle of a is read.
Tensor cholesky(const Tensor& a, Triangle triangle);
/// The solution X [.., N, K] of a X = b [.., N, K], given the factor [.., N, N] of a that
/// cholesky() returns; batches broadcast. The factor's zeros are not read.
Tensor cholesky_solve(const Tensor& b, const Tensor& factor, Triangle triangle = Triangle::lower);
/// The inverse [.., N, N] of a matrix, given the factor [.., N, N] that cholesky() returns.
Tensor cholesky_inverse(const Tensor& factor, Triangle triangle = Triangle::lower);
/// The inverse with respect to tensordot() over `ind` dimensions: the first `ind` sizes of a have
/// the same product as its other sizes, and the result has the other dimensions first.
Tensor tensorinv(const Tensor& a, int64_t ind = 2);
/// The solution x of tensordot(a, x, x.ndim()) = b, where the shape of a is that of b and then that
/// of x. `dims` of a, if given, are moved to its end first.
Tensor tensorsolve(const Tensor& a, const Tensor& b, const Dims& dims = {});
/// \}

/// \name LU factors
/// \{
/// What lu_factor() returns.
struct LUFactors {
  /// [.., M, N]: U in the upper triangle, below it L, whose diagonal is 1
  Tensor lu;
  /// int32 [.., min(M, N)]: for k = 1, 2, .., row k was exchanged with row pivots[k]; rows count
  /// from 1
  Tensor pivots;
};
/// The factors of a [.., M, N] = P L U, by partial pivoting, for lu_solve(). Throws an Error that
/// names the first singular matrix; lu() does not. The derivative needs the first min(M, N) columns
/// to be independent.
LUFactors lu_factor(const Tensor& a);
/// What lu() and lu_unpack() return, with K = min(M, N).
struct PLU {
  Tensor p;  ///< [.., M, M], a permutation, without gradient
  Tensor l;  ///< [.., M, K], lower triangular, with ones on the diagonal
  Tensor u;  ///< [.., K, N], upper triangular
};
/// The matrices P, L and U with a [.., M, N] = P L U.
PLU lu(const Tensor& a);
/// Which matrices lu_unpack() makes.
struct UnpackOptions {
  bool data = true;    ///< l and u; if false they are undefined
  bool pivots = true;  ///< p; if false it is undefined
};
/// The matrices whose factors lu_factor() returned.
PLU lu_unpack(const Tensor& factors, const Tensor& pivots, const UnpackOptions& options = {});
/// Options of lu_solve().
struct LUSolveOptions {
  bool left = true;      ///< true: solve a X = b; false: solve X a = b
  bool adjoint = false;  ///< true: a counts as transposed
};
/// The solution X of a X = b, for b [.., N, K], given what lu_factor() returned for a [.., N, N];
/// batches broadcast. The arguments are in the order of torch.linalg.lu_solve.
Tensor lu_solve(const Tensor& factors, const Tensor& pivots, const Tensor& b,
                const LUSolveOptions& options = {});
/// \}

/// \name Products of Householder's reflections I - tau v v^T
/// The vectors v are the first K columns of a [.., M, N], M >= K, whose elements above the diagonal
/// do not count, and on it are taken for 1; tau is [.., K].
/// \{
/// The first N columns [.., M, N] of the product of the reflections, for a [.., M, N] with N >= K,
/// of which the first K columns are read.
Tensor householder_product(const Tensor& a, const Tensor& tau);
/// Options of ormqr().
struct OrmqrOptions {
  bool left = true;        ///< true: Q other; false: other Q
  bool transpose = false;  ///< true: Q counts as transposed
};
/// The product of all of Q [.., M, M], which is that of the reflections, and another matrix: Q
/// other for other [.., M, K], or on the right other Q for other [.., K, M].
Tensor ormqr(const Tensor& a, const Tensor& tau, const Tensor& other,
             const OrmqrOptions& options = {});
/// \}

/// \name Numbers that describe a matrix
/// \{
/// log(det(a)) [..] of a [.., N, N]; NaN if the determinant is negative, -inf if it is 0.
Tensor logdet(const Tensor& a);
/// The number [..] of singular values of a [.., M, N] that count, int64; rtol and atol are as in
/// pinv().
Tensor matrix_rank(const Tensor& a, std::optional<double> rtol = {}, double atol = 0.0);
/// The p-norm of all elements, or of vectors along dims: norm().
Tensor vector_norm(const Tensor& x, double p = 2.0, const Dims& dims = {}, bool keepdim = false);
/// Which norm matrix_norm() computes: fro is the root of the sum of squares, nuc the sum of
/// singular values, inf the largest sum of magnitudes in a row, one that in a column, and two the
/// largest singular value; minus_inf, minus_one and minus_two are the smallest of each.
enum class MatrixNorm { fro, nuc, inf, one, two, minus_inf, minus_one, minus_two };
/// A norm [..] of each matrix of a [.., M, N]; 0 for one without elements.
Tensor matrix_norm(const Tensor& a, MatrixNorm which = MatrixNorm::fro);
/// The same for matrices whose rows are numbered along dims[0] and columns along dims[1]; with
/// keepdim, both dimensions stay, with size 1.
Tensor matrix_norm(const Tensor& a, MatrixNorm which, const Dims& dims, bool keepdim = false);
/// The condition number |a| |a^-1| of a [.., N, N] in a norm; in those of singular values the
/// largest one over the smallest, or for minus_two the other way round, also of a [.., M, N].
/// Infinite for a singular matrix.
Tensor cond(const Tensor& a, MatrixNorm which = MatrixNorm::two);
/// \}

/// \name With an error code
/// Like the functions without _ex, but a matrix for which those throw an Error gets the result NaN
/// and the gradient 0. `info` [..], int32, is 0 for matrices with a result, and else says what is
/// wrong.
/// \{
/// What cholesky_ex() returns.
struct CholeskyEx {
  Tensor l;     ///< [.., N, N]
  Tensor info;  ///< the order of the first leading minor that is not positive
};
/// cholesky() of the lower triangle, or the upper one, with an error code.
CholeskyEx cholesky_ex(const Tensor& a, Triangle triangle = Triangle::lower);
/// What inv_ex() returns.
struct InvEx {
  Tensor inverse;  ///< [.., N, N]
  Tensor info;     ///< the position, from 1 on, of the first pivot that is 0 or NaN
};
/// inv() with an error code.
InvEx inv_ex(const Tensor& a);
/// What solve_ex() returns.
struct SolveEx {
  Tensor result;  ///< as of solve()
  Tensor info;    ///< the position, from 1 on, of a's first pivot that is 0 or NaN
};
/// solve() with an error code.
SolveEx solve_ex(const Tensor& a, const Tensor& b, SolveSide side = SolveSide::left);
/// What lu_factor_ex() returns.
struct LUFactorsEx {
  Tensor lu, pivots;  ///< as of lu_factor(); also those of singular matrices
  Tensor info;        ///< the position, from 1 on, of the first pivot that is 0 or NaN
};
/// lu_factor() with an error code. The factors of singular matrices are those that lu() has.
LUFactorsEx lu_factor_ex(const Tensor& a);
/// \}

/// \name With tolerances for each matrix
/// \{
/// Options of pinv() and matrix_rank().
struct PinvOptions {
  Tensor atol = {};        ///< [..], broadcasts with the batch; 0 when undefined
  Tensor rtol = {};        ///< the same; as in pinv(a) when undefined, or 0 where atol is positive
  bool hermitian = false;  ///< true: a is symmetric, and only its lower triangle is read
};
/// The pseudoinverse with these options. Of symmetric matrices, eigenvalues are computed instead of
/// singular values.
Tensor pinv(const Tensor& a, const PinvOptions& options);
/// The number of singular values, or of symmetric matrices of eigenvalues, that count.
Tensor matrix_rank(const Tensor& a, const PinvOptions& options);
/// \}

/// \name Of low rank
/// Halko, Martinsson and Tropp, "Finding structure with randomness", SIAM Review 53, 2011. Random
/// numbers are this thread's.
/// \{
/// What svd_lowrank() and pca_lowrank() return.
struct LowRank {
  Tensor u;  ///< [.., M, q], orthonormal columns
  Tensor s;  ///< [.., q], descending
  Tensor v;  ///< [.., N, q], orthonormal columns: a is about u diag(s) v^T
};
/// The largest q singular values of a [.., M, N], or of a - mean, with their vectors, which are
/// found in the image of random vectors after niter steps of an iteration with a a^T. An Error
/// unless q is from 0 to min(M, N).
LowRank svd_lowrank(const Tensor& a, int64_t q = 6, int64_t niter = 2, const Tensor& mean = {});
/// Options of pca_lowrank().
struct PCAOptions {
  std::optional<int64_t> q = {};  ///< min(6, M, N) when absent
  bool center = true;             ///< true: the mean of each column is subtracted first
  int64_t niter = 2;              ///< steps of the iteration
};
/// The principal components of the rows of a [.., M, N]: the columns of v, in which the rows vary
/// most.
LowRank pca_lowrank(const Tensor& a, const PCAOptions& options = {});
/// \}

/// \name Second names, as PyTorch has them
/// \{
inline Tensor inverse(const Tensor& a) { return inv(a); }
inline Tensor pinverse(const Tensor& a) { return pinv(a); }
inline Tensor orgqr(const Tensor& a, const Tensor& tau) { return householder_product(a, tau); }
/// \}

}  // namespace hero

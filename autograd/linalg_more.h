#pragma once
// Solvers that say which matrices they refuse instead of throwing, tolerances as tensors, and
// decompositions of low rank by random projections.
#include <hero/autograd/ops/linalg/linalg.h>

namespace hero {

/// \name With an error code
/// Like the functions without _ex, but matrices that these refuse are no Error: `info` [..], int32,
/// is 0 for those with a result, and else says what is wrong. Their results are NaN, and they have
/// the gradient 0.
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

}  // namespace hero

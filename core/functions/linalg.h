#pragma once
// Decompositions and solvers of matrices, which are the last two dimensions of float32 or float64
// arrays on the cpu; leading dimensions are batches. On meta only shapes are computed.
#include <hero/core/array.h>

namespace hero::core {

/// P a = L U of matrices [.., M, N], by partial pivoting; on the cpu.
struct LU {
  Array factors;  ///< [.., M, N]: U in the upper triangle, below it L, whose diagonal is 1
  Array pivots;   ///< int64 [.., min(M, N)]: row k was exchanged with this one, k rising
};
/// The factors of every matrix of a [.., M, N]. Throws an Error of `op` that names the first
/// singular matrix, unless singular_will_do.
LU factor_lu(const char* op, const Array& a, bool singular_will_do);
/// The order of M = `rows` rows after the exchanges of `pivots`, which are int64 or int32 and count
/// from `base`: int64 [.., M], on the device of the pivots.
Array row_order(const char* op, const Array& pivots, int64_t rows, int64_t base);

/// X with a X = b: a [.., N, N], b [.., N, K], batches broadcast. By LU factors with partial
/// pivoting; throws an Error that names the first singular matrix. If `factors` is not null, it is
/// set to the factors of a.
Array solve(const Array& a, const Array& b, LU* factors = nullptr);

/// The same given a's factors, or X with a^T X = b if `turned`.
Array solve_factored(const LU& lu, const Array& b, bool turned);

/// The inverse of a [.., N, N]; an Error names the first singular matrix.
Array inverse(const Array& a);

struct Determinant {
  Array sign;    ///< [..]: -1, 0 or 1
  Array logabs;  ///< [..]: log |det|, -inf for a singular matrix
  Array value;   ///< [..]: the determinant
};
/// The determinants of a [.., N, N].
Determinant determinant(const Array& a);

/// The lower triangular L with a = L L^T, reading only a's lower triangle; an Error names the first
/// matrix that is not positive definite.
Array cholesky(const Array& a);
/// int32 [..]: 0 for each matrix of a [.., N, N] of which cholesky() finds a factor, and else the
/// order of the first leading minor that is not positive.
Array cholesky_fault(const Array& a);

struct QR {
  Array q;  ///< [.., M, min(M, N)], orthonormal columns
  Array r;  ///< [.., min(M, N), N], upper triangular
};
/// Householder's QR decomposition of a [.., M, N].
QR qr(const Array& a);

/// X that minimises |a X - b|: a [.., M, N] with M >= N, b [.., M, K], batches broadcast. By QR
/// with column pivoting; an Error names the first matrix without full column rank.
Array lstsq(const Array& a, const Array& b);

struct SVD {
  Array u;   ///< [.., M, K], orthonormal columns; K = min(M, N)
  Array s;   ///< [.., K], descending
  Array vh;  ///< [.., K, N], orthonormal rows
};
/// a = u diag(s) vh, of a [.., M, N], by way of a bidiagonal matrix
/// (core/cpu/products/wide_svd.cpp); an Error names the first matrix with an element that is not
/// finite.
SVD svd(const Array& a);

struct Eigh {
  Array values;   ///< [.., N], ascending
  Array vectors;  ///< [.., N, N], orthonormal columns
};
/// Decomposes symmetric matrices a [.., N, N], of which it reads the lower triangle only.
Eigh eigh(const Array& a);

struct Triangular {
  bool upper = true;  ///< which triangle is read
  bool unit = false;  ///< the diagonal counts as 1
};
/// X with a X = b, a [.., N, N] triangular, b [.., N, K], batches broadcast.
Array solve_triangular(const Array& a, const Array& b, const Triangular& how);

}  // namespace hero::core

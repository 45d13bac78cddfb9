#pragma once
// Decompositions and solvers of matrices: the last two dimensions of float32 or float64 cpu arrays
//, leading dimensions are batches. On the
// meta device only shapes are computed.
#include <hero/core/array.h>

namespace hero::core {

/// X with a X = b: a [.., N, N], b [.., N, K], batches broadcast. LU with partial pivoting; an
/// Error names the first singular matrix.
Array solve(const Array& a, const Array& b);

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

struct QR {
  Array q;  ///< [.., M, min(M, N)], orthonormal columns
  Array r;  ///< [.., min(M, N), N], upper triangular
};
/// Householder's QR decomposition of a [.., M, N].
QR qr(const Array& a);

/// X that minimises |a X - b|: a [.., M, N] with M >= N, b [.., M, K], batches broadcast. By QR
/// with column pivoting; an Error names the first matrix without full column rank.
Array lstsq(const Array& a, const Array& b);

}  // namespace hero::core

#pragma once
// Factorisations of row-major matrices by blocks of columns, so that products do most of the work;
// T is float or double.
#include <algorithm>
#include <cstdint>

namespace hero::core::cpu {

/// [note: the bits of factors]
/// Up to so many columns are factored one after the other. More are halved, the first half being a
/// multiple of it: the order of operations follows from the size alone.
inline constexpr int64_t kFactorBlock = 16;
inline int64_t factor_half(int64_t count) {
  return (count / 2 + kFactorBlock - 1) / kFactorBlock * kFactorBlock;
}

/// P A = L U in place of A [rows, columns], with partial pivoting: U in the upper triangle, L,
/// whose diagonal is 1, below it. Row k was exchanged with row pivots[k], k rising up to the
/// smaller of rows and columns. False if a pivot is 0; the factors are valid even so.
template <class T>
bool factor_lu(int64_t rows, int64_t columns, T* a, int64_t* pivots);

/// The lower triangular L [n, n] of A = L L^T, with zeros above it, of A's lower triangle. False
/// where A is not positive definite.
template <class T>
bool factor_cholesky(int64_t n, const T* a, T* l);

/// A [rows, columns] = Q R, with orthonormal columns of Q [rows, inner] and R [inner, columns]
/// upper triangular; inner is the smaller of rows and columns, and above 0.
template <class T>
void factor_qr(int64_t rows, int64_t columns, const T* a, T* q, T* r);

/// X [columns, sides] that minimises |A X - B|, of A [rows, columns], rows >= columns > 0. False
/// where A has not full column rank: where a pivot of its QR decomposition with exchanges of
/// columns is within roundings of 0 beside the largest.
template <class T>
bool least_squares(int64_t rows, int64_t columns, int64_t sides, const T* a, const T* b, T* x);

/// The eigenvalues [n], ascending, of the symmetric matrix whose lower triangle is a's, and its
/// eigenvectors, the columns of `vectors` [n, n], orthonormal. All of that triangle is finite, n is
/// above 0. False if they did not converge, which is not known to happen for any matrix.
template <class T>
bool eigen_symmetric(int64_t n, const T* a, T* values, T* vectors);

}  // namespace hero::core::cpu

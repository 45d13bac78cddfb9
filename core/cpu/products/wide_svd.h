#pragma once
// Singular values by way of a bidiagonal matrix.
#include <cstdint>

namespace hero::core::cpu {

/// a [rows, columns] = p^T diag(s) q, row-major, rows <= columns: p [rows, rows] and q [rows,
/// columns] with orthonormal rows, s [rows] descending. All of a is finite. T is float or double.
template <class T>
struct WideSVD {
  int64_t rows, columns;
  const T* a;
  int64_t row_step, column_step;  ///< of a, in elements
  T *p, *s, *q;

  /// False if the singular values did not converge, which is not known to happen for any matrix.
  bool run() const;
};

}  // namespace hero::core::cpu

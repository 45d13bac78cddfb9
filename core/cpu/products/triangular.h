#pragma once
// Systems of equations with a triangular matrix.
#include <cstdint>

namespace hero::core::cpu {

/// A X = B with A [n, n], of which one triangle is read: element (i, j) lies at i * row_step + j *
/// column_step. B [n, columns] lies by rows, b_step apart. T is float or double.
template <class T>
struct TriangularSystem {
  bool upper;  ///< which triangle
  bool unit;   ///< the diagonal counts as 1
  int64_t n, columns;
  const T* a;
  int64_t row_step, column_step;
  T* b;
  int64_t b_step;

  /// Puts X in place of B. An element of X depends on its column alone.
  void solve() const;
};

}  // namespace hero::core::cpu

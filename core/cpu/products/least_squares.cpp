// Least squares by Householder's QR decomposition with exchanges of columns (Golub and Van Loan,
// "Matrix Computations", 5.4), whose pivots reveal the rank.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <hero/core/cpu/cpu_backend.h>
#include <hero/core/cpu/products/factors.h>
#include <hero/core/cpu/products/reflections.h>
#include <hero/core/cpu/products/transpose.h>
#include <hero/core/cpu/products/triangular.h>
#include <hero/core/functions/matrix_batch.h>

namespace hero::core::cpu {

using namespace linalg;

namespace {

// The sum of squares from element `first` on.
template <class T>
T squares_from(const T* x, int64_t first, int64_t length) {
  using V = LaneVector<T>;
  constexpr int64_t kWidth = VectorList<T>::kWidth;
  const int64_t whole = VectorList<T>::lanes_of(first + kWidth - 1);
  T head = T(0);
  for (int64_t i = first; i < whole; ++i) head += x[i] * x[i];
  V sum = {};
  for (int64_t i = whole; i < length; i += kWidth) sum += lanes_at(x + i) * lanes_at(x + i);
  return head + sum_of_lanes<T>(sum);
}

}  // namespace

template <class T>
bool least_squares(int64_t rows, int64_t columns, int64_t sides, const T* a, const T* b, T* x) {
  const VectorList<T> matrix(columns, rows), right(sides, rows), reflections(columns, rows);
  transpose(rows, columns, a, columns, matrix[0], matrix.step());
  transpose(rows, sides, b, sides, right[0], right.step());
  const PowerOfTwo<T> unit(largest_of(matrix)), side_unit(largest_of(right));
  unit.divide(matrix);
  side_unit.divide(right);
  const int64_t length = matrix.length();
  std::vector<int64_t> order(static_cast<size_t>(columns));
  std::iota(order.begin(), order.end(), 0);
  T least = std::numeric_limits<T>::infinity(), most = T(0);
  for (int64_t k = 0; k < columns; ++k) {
    int64_t best = k;
    T largest = T(-1);
    for (int64_t j = k; j < columns; ++j) {
      const T squares = squares_from(matrix[j], k, length);
      if (squares > largest) best = j;
      largest = std::max(largest, squares);
    }
    if (best != k) std::swap_ranges(matrix[k], matrix[k] + length, matrix[best]);
    std::swap(order[static_cast<size_t>(k)], order[static_cast<size_t>(best)]);
    T* const u = reflections[k];
    std::copy(matrix[k] + k, matrix[k] + rows, u + k);
    const Reflection<T> r = reflect(u, k, length);
    matrix[k][k] = r.length;
    for (int64_t j = k + 1; j < columns; ++j) apply_reflection(u, r.factor, k, length, matrix[j]);
    for (int64_t j = 0; j < sides; ++j) apply_reflection(u, r.factor, k, length, right[j]);
    const T pivot = std::abs(r.length);
    most = std::max(most, pivot);
    // NaN is no pivot.
    least = pivot >= T(0) ? std::min(least, pivot) : T(0);
  }
  const T rounding = std::numeric_limits<T>::epsilon() * static_cast<T>(columns);
  if (!(least > most * rounding)) return false;
  const Workspace<T> solution(columns * sides);
  transpose(sides, columns, right[0], right.step(), solution.data(), sides);
  TriangularSystem<T>{true, false,         columns,         sides, matrix[0],
                      1,    matrix.step(), solution.data(), sides}
      .solve();
  for (int64_t k = 0; k < columns; ++k) {
    T* const to = x + order[static_cast<size_t>(k)] * sides;
    for (int64_t j = 0; j < sides; ++j) {
      to[j] = std::ldexp(solution.data()[k * sides + j], side_unit.exponent() - unit.exponent());
    }
  }
  return true;
}

template bool least_squares(int64_t, int64_t, int64_t, const float*, const float*, float*);
template bool least_squares(int64_t, int64_t, int64_t, const double*, const double*, double*);

std::optional<int64_t> BasicKernels::run(const call::LeastSquares& call) {
  const Shape batch = batch_of(call.x);
  const int64_t rows = call.a.size(-2), columns = call.a.size(-1), sides = call.b.size(-1);
  return with_floats(call.a, [&]<class T>(TypeTag<T>) {
    const Batch left(call.a.contiguous(), batch), right(call.b.contiguous(), batch);
    const Batch result(call.x, batch);
    return first_without(batch, rows * columns * columns, [&](int64_t i) {
      return least_squares(rows, columns, sides, left.at<T>(i), right.at<T>(i), result.at<T>(i));
    });
  });
}

}  // namespace hero::core::cpu

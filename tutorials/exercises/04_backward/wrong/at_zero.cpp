// says: There x is 0, which is not positive
#include "exercises/04_backward/exercise.h"

using hero::Tensor;

namespace exercise {

// y = a * b, element by element, all of one shape.
Two multiply_backward(const Tensor& g, const Tensor& a, const Tensor& b) { return {g * b, g * a}; }

// y = a + b, where a has the shape [M, N] and b, of shape [N], is added to every row.
Two add_row_backward(const Tensor& g) { return {g, sum(g, {0})}; }

// y = matmul(a, b): a [M, K], b [K, N], y [M, N].
Two matmul_backward(const Tensor& g, const Tensor& a, const Tensor& b) {
  return {matmul(g, b.t()), matmul(a.t(), g)};
}

// y = relu(x): x where it is positive, and 0 elsewhere.
Tensor relu_backward(const Tensor& g, const Tensor& x) { return where(x >= 0, g, 0.0); }

// y = softmax(x, 1): in each row of y [M, N], exp(x) divided by the sum of exp(x) of the row. You
// get the result y and not x: dy_i / dx_j = y_i (1 - y_i) where i = j, and -y_i y_j elsewhere.
Tensor softmax_backward(const Tensor& g, const Tensor& y) {
  return y * (g - sum(g * y, {1}, true));
}

}  // namespace exercise

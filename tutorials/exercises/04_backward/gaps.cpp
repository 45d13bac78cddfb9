// 4. Backward of five operations: from the gradient of a result to those of its inputs (chapter 6a)
//
// For each operation you get g, the gradient of the loss with respect to the result y. It has the
// shape of y. Return the gradient with respect to each input; it has the shape of this input.
//
// What you need of the library, for tensors:
//   a * b, a + b, a - b            element by element; a [M, 1] is used for all columns, and
//                                  b [N] for all rows
//   matmul(a, b), a.t()            a product of matrices; rows and columns exchanged
//   sum(x, {0})                    the sum over dimension 0: the sum of all rows
//   sum(x, {1}, true)              the sum of each row, as a column of shape [M, 1]
//   where(x > 0, a, b)             a where x is positive, b elsewhere; either may be a number
#include "exercises/04_backward/exercise.h"

using hero::Tensor;

namespace exercise {

// y = a * b, element by element, all of one shape.
Two multiply_backward(const Tensor& g, const Tensor& a, const Tensor& b) {
  // WRITE 1: return {gradient of a, gradient of b};
  to_write("1, multiply_backward().");
}

// y = a + b, where a has the shape [M, N] and b, of shape [N], is added to every row.
Two add_row_backward(const Tensor& g) {
  // WRITE 2: b is used M times.
  to_write("2, add_row_backward().");
}

// y = matmul(a, b): a [M, K], b [K, N], y [M, N].
Two matmul_backward(const Tensor& g, const Tensor& a, const Tensor& b) {
  // WRITE 3: the shapes leave one product for each.
  to_write("3, matmul_backward().");
}

// y = relu(x): x where it is positive, and 0 elsewhere.
Tensor relu_backward(const Tensor& g, const Tensor& x) {
  // WRITE 4
  to_write("4, relu_backward().");
}

// y = softmax(x, 1): in each row of y [M, N], exp(x) divided by the sum of exp(x) of the row. You
// get the result y and not x: dy_i / dx_j = y_i (1 - y_i) where i = j, and -y_i y_j elsewhere.
Tensor softmax_backward(const Tensor& g, const Tensor& y) {
  // WRITE 5
  to_write("5, softmax_backward().");
}

}  // namespace exercise

// 6. Layer norm and its gradient (chapter 8)
//
// Every row of x, with D numbers, is moved and scaled so that its mean is 0 and its variance is 1.
// Then each column is multiplied by its weight, and its bias is added:
//
//   n = (x - mean) / sqrt(variance + eps)        y = n * weight + bias
//
// where the variance is the mean of (x - mean)^2: it is divided by D, and not by D - 1.
//
// What you need of the library, for tensors:
//   mean(x, {1}, true)    the mean of each row of x [B, D], as a column of shape [B, 1]
//   sum(x, {0})           the sum of all rows, of shape [D]
//   square(x), sqrt(x)    element by element, as are + - * /; a column [B, 1] is used for all
//                         columns of a matrix, and a row [D] for all its rows
#include "exercises/06_layer_norm/exercise.h"

using hero::Tensor;

namespace exercise {

Tensor layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  // WRITE 1: return y, of shape [B, D].
  to_write("1, layer_norm_forward().");
}

// g is the gradient of y. Call h = g * weight the gradient of n. Each x of a row changes n in three
// ways: by itself, by the mean of the row and by its variance. Together this is, for each row,
//
//   gradient of x = (h - mean of h - n * mean of (h * n)) / sqrt(variance + eps)
//
// The weight and the bias of a column are used in every row.
Gradients layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& weight, double eps) {
  // WRITE 2: return {gradient of x, gradient of weight, gradient of bias};
  to_write("2, layer_norm_backward().");
}

}  // namespace exercise

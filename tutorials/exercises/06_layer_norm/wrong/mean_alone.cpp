// says: The mean of (h * n) is not multiplied by n
#include "exercises/06_layer_norm/exercise.h"

using hero::Tensor;

namespace exercise {

Tensor layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const Tensor centred = x - mean(x, {1}, true);
  const Tensor root = sqrt(mean(square(centred), {1}, true) + eps);
  return centred / root * weight + bias;
}

// g is the gradient of y. Call h = g * weight the gradient of n. Each x of a row changes n in three
// ways: by itself, by the mean of the row and by its variance. Together this is, for each row,
//
//   gradient of x = (h - mean of h - n * mean of (h * n)) / sqrt(variance + eps)
//
// The weight and the bias of a column are used in every row.
Gradients layer_norm_backward(const Tensor& g, const Tensor& x, const Tensor& weight, double eps) {
  const Tensor centred = x - mean(x, {1}, true);
  const Tensor root = sqrt(mean(square(centred), {1}, true) + eps);
  const Tensor n = centred / root, h = g * weight;
  const Tensor of_x = (h - mean(h, {1}, true) - mean(h * n, {1}, true)) / root;
  return {of_x, sum(g * n, {0}), sum(g, {0})};
}

}  // namespace exercise

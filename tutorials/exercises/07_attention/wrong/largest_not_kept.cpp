// says: largest = maximum(largest, ..)
#include <cmath>
#include <limits>

#include "exercises/07_attention/exercise.h"

using hero::Tensor;

namespace exercise {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// q, k and v have the shape [T, D]. Return the result, of the same shape.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const double root = std::sqrt(static_cast<double>(q.size(1)));
  const Tensor scores =
      (matmul(q, k.t()) / root).masked_fill(comes_after(q.size(0), k.size(0)), -kInfinity);
  return matmul(softmax(scores, 1), v);
}

// The same without a table [T, T]: only `block` keys and values are looked at together, and their
// scores are forgotten before the next ones come. The softmax has to be a running one. For each
// query keep
//   largest   the largest score so far, [T, 1]
//   total     the sum of exp(score - largest) so far, [T, 1]
//   result    the sum of exp(score - largest) times the row of v so far, [T, D]
// When a block brings a larger score, total and result were made with the old one: multiply both by
// exp(old largest - new largest). At the end the result is divided by the total.
Tensor attention_in_blocks(const Tensor& q, const Tensor& k, const Tensor& v, int64_t block) {
  const int64_t length = q.size(0);
  const double root = std::sqrt(static_cast<double>(q.size(1)));
  Tensor largest = hero::full({length, 1}, -kInfinity, {.dtype = q.dtype()});
  Tensor total = hero::zeros_like(largest), result = hero::zeros_like(v);
  for (int64_t first = 0; first < length; first += block) {
    const int64_t last = std::min(first + block, length);  // keys first ... last - 1
    const Tensor scores = (matmul(q, k.slice(0, first, last).t()) / root)
                              .masked_fill(comes_after(length, last - first, first), -kInfinity);
    const Tensor now = maximum(largest, amax(scores, {1}, true));
    const Tensor shrink = exp(largest - now), weights = exp(scores - now);
    total = total * shrink + sum(weights, {1}, true);
    result = result * shrink + matmul(weights, v.slice(0, first, last));
  }
  return result / total;
}

}  // namespace exercise

// 7. Attention: causal, then in blocks with a running softmax (chapter 8)
//
// Position t of a text asks with its query, row t of q, which earlier positions matter to it. The
// score of a key is the product of query and key divided by sqrt(D). A position must not see what
// comes after it: such scores become minus infinity. Softmax makes weights of each row of scores,
// and the result is the weighted sum of the rows of v.
//
// What you need of the library, for tensors:
//   matmul(a, b), a.t()                    a product of matrices; rows and columns exchanged
//   comes_after(queries, keys, first_key)  a table [queries, keys], true where the key comes
//                                          after the query; first_key: the first key's position
//   scores.masked_fill(table, -kInfinity)  -infinity where the table is true
//   softmax(scores, 1)                     each row becomes positive numbers with the sum 1
//   k.slice(0, first, last)                the rows first ... last - 1
//   amax(x, {1}, true), sum(x, {1}, true)  the largest number, and the sum, of each row: [T, 1]
//   maximum(a, b), exp(x)                  element by element
//   hero::zeros_like(v), hero::full({T, 1}, -kInfinity, {.dtype = q.dtype()})
#include <cmath>
#include <limits>

#include "exercises/07_attention/exercise.h"

using hero::Tensor;

namespace exercise {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// q, k and v have the shape [T, D]. Return the result, of the same shape.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const double root = std::sqrt(static_cast<double>(q.size(1)));
  // WRITE 1: the scores [T, T], without those of later keys; their softmax; the weighted sums.
  to_write("1, attention().");
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
    // WRITE 2: the scores [T, last - first] of these keys, and the three running values.
    to_write("2, attention_in_blocks().");
  }
  return result / total;
}

}  // namespace exercise

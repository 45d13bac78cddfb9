// Grades answers to exercise 7.
#include <cmath>
#include <limits>

#include "exercises/07_attention/exercise.h"
#include "exercises/support/compare.h"

#include <hero/core/ledger.h>

using exercise::compare, exercise::grouped, exercise::numbers, exercise::require;
using hero::Tensor;

namespace {

constexpr int64_t kLength = 7, kWidth = 4;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Heads {
  Tensor q, k, v;
};
Heads heads(int64_t length) {
  return {3.0 * numbers({length, kWidth}, 1), 2.0 * numbers({length, kWidth}, 2),
          numbers({length, kWidth}, 3)};
}
Tensor right(const Heads& h) {
  return scaled_dot_product_attention(h.q, h.k, h.v, {.is_causal = true});
}

void no_nan(const Tensor& got, const std::string& what) {
  const std::vector<double> values = got.to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    require(!std::isnan(values[i]), what,
            exercise::index_text(got.shape(), static_cast<int64_t>(i)),
            " is no number. A query whose scores are all minus infinity has no softmax: every "
            "position may see itself.");
  }
}

std::string whole() {
  const Heads h = heads(kLength);
  const Tensor scores = matmul(h.q, h.k.t()), later = exercise::comes_after(kLength, kLength);
  const auto from = [&](const Tensor& s, int64_t dim) { return matmul(softmax(s, dim), h.v); };
  const auto causal = [&](const Tensor& s) { return s.masked_fill(later, -kInfinity); };
  const Tensor got = exercise::attention(h.q, h.k, h.v);
  no_nan(got, "The result");
  compare(
      "The result", got, right(h),
      {{from(scores / 2.0, 1),
        "Every position sees those after it: their scores should be minus infinity."},
       {from(causal(scores), 1), "The scores are not divided by sqrt(D)."},
       {from(causal(scores / 4.0), 1), "The scores are divided by D, and should be by sqrt(D)."},
       {from(causal(scores / 2.0), 0),
        "Softmax is over the queries, and should be over the keys: dimension 1."},
       {from((scores / 2.0).masked_fill(later, 0.0), 1),
        "A score of 0 has a weight: later keys should have minus infinity."},
       {matmul(softmax(scores / 2.0, 1).masked_fill(later, 0.0), h.v),
        "Later keys were taken away after the softmax, so the weights of a row have no sum of 1."},
       {matmul(causal(scores / 2.0).masked_fill(later, 0.0), h.v), "The softmax is missing."}});
  return "the result is that of the library's attention, up to roundings.";
}

std::string in_blocks() {
  for (const int64_t block : {7, 3, 2, 1}) {
    const Heads h = heads(kLength);
    const Tensor got = exercise::attention_in_blocks(h.q, h.k, h.v, block);
    // what comes of it if the old sums are not adjusted to a new largest score, or of the last
    // block alone
    Tensor largest = hero::full({kLength, 1}, -kInfinity, {.dtype = hero::kFloat64});
    Tensor total = zeros_like(largest), result = zeros_like(h.v), of_total = zeros_like(h.v);
    Tensor right_total = zeros_like(largest);
    for (int64_t first = 0; first < kLength; first += block) {
      const int64_t last = std::min(first + block, kLength);
      const Tensor scores =
          (matmul(h.q, h.k.slice(0, first, last).t()) / 2.0)
              .masked_fill(exercise::comes_after(kLength, last - first, first), -kInfinity);
      const Tensor now = maximum(largest, amax(scores, {1}, true)), weights = exp(scores - now);
      const Tensor shrink = exp(largest - now), sums = sum(weights, {1}, true);
      const Tensor values = matmul(weights, h.v.slice(0, first, last));
      of_total = of_total + values;  // beside a total that was adjusted
      total = total + sums, result = result + values;
      right_total = right_total * shrink + sums;
      largest = now;
    }
    no_nan(got, "With blocks of " + std::to_string(block) + " the result");
    compare("With blocks of " + std::to_string(block) + " the result", got, right(h),
            {{result / total,
              "The sums so far were not adjusted to the new largest score: multiply them by "
              "exp(old - new)."},
             {of_total / right_total,
              "The total was adjusted to the new largest score, and the result was not."}});
  }
  return "the same in blocks of 7, 3, 2 and 1 keys.";
}

std::string memory() {
  constexpr int64_t kLong = 512, kBlock = 16;
  const Heads h = heads(kLong);
  hero::Ledger& ledger = hero::current_ledger();
  const int64_t before = ledger.live();
  ledger.reset_peak();
  const Tensor got = exercise::attention_in_blocks(h.q, h.k, h.v, kBlock);
  const int64_t held = ledger.peak() - before, table = 8 * kLong * kLong;
  require(held < table / 2, "For 512 positions and blocks of 16 keys it holds ", grouped(held),
          " bytes, and a table of all scores has ", grouped(table),
          ". Look at one block of keys at a time.");
  return "for 512 positions and blocks of 16 keys it holds " + grouped(held) +
         " bytes, and a table of all scores has " + grouped(table) + ".";
}

}  // namespace

int main() {
  return exercise::grade("Exercise 7. Attention",
                         {{"whole", whole}, {"in blocks", in_blocks}, {"memory", memory}});
}

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

void no_nan(const Tensor& got, const std::string& what, const char* why) {
  const std::vector<double> values = got.to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    require(!std::isnan(values[i]), what,
            exercise::index_text(got.shape(), static_cast<int64_t>(i)), " is no number. ", why);
  }
}

std::string whole() {
  const Heads h = heads(kLength);
  const Tensor scores = matmul(h.q, h.k.t()), later = exercise::comes_after(kLength, kLength);
  const auto from = [&](const Tensor& s, int64_t dim) { return matmul(softmax(s, dim), h.v); };
  const auto causal = [&](const Tensor& s) { return s.masked_fill(later, -kInfinity); };
  const Tensor got = exercise::attention(h.q, h.k, h.v);
  no_nan(got, "The result",
         "A query whose scores are all minus infinity has no softmax: every position may see "
         "itself.");
  compare(
      "The result", got, right(h),
      {{from(scores / 2.0, 1),
        "Every position sees those after it: their scores should be minus infinity."},
       {from(causal(scores), 1), "The scores are not divided by sqrt(D)."},
       {matmul(softmax(causal(scores / 2.0), 1), h.k),
        "That is the weighted sum of the rows of k, and should be that of v."},
       {from(causal(scores * 2.0), 1), "The scores are multiplied by sqrt(D)."},
       {from((scores / 2.0).masked_fill(later.t(), -kInfinity), 1),
        "Every position sees those after it, and none before it: the table is turned."},
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

// What may be wrong in a block.
enum class Slip : char {
  none,
  nothing_adjusted,  // neither sum, where a larger score comes
  total_adjusted,
  result_adjusted,
  not_masked,
  masked_from_0,  // as if every block began with the first key
  not_scaled,
  divided_each,  // by the total, in each block
};
Tensor blocks_with(Slip slip, const Heads& h, int64_t block) {
  Tensor largest = hero::full({kLength, 1}, -kInfinity, {.dtype = hero::kFloat64});
  Tensor total = zeros_like(largest), result = zeros_like(h.v);
  const Tensor one = ones_like(total);
  for (int64_t first = 0; first < kLength; first += block) {
    const int64_t last = std::min(first + block, kLength);
    Tensor scores = matmul(h.q, h.k.slice(0, first, last).t());
    if (slip != Slip::not_scaled) scores = scores / 2.0;
    if (slip != Slip::not_masked) {
      const int64_t from = slip == Slip::masked_from_0 ? 0 : first;
      scores = scores.masked_fill(exercise::comes_after(kLength, last - first, from), -kInfinity);
    }
    const Tensor now = maximum(largest, amax(scores, {1}, true)), weights = exp(scores - now);
    const Tensor shrink = exp(largest - now);
    const bool neither = slip == Slip::nothing_adjusted;
    total =
        total * (neither || slip == Slip::result_adjusted ? one : shrink) + sum(weights, {1}, true);
    result = result * (neither || slip == Slip::total_adjusted ? one : shrink) +
             matmul(weights, h.v.slice(0, first, last));
    if (slip == Slip::divided_each) result = result / total;
    largest = now;
  }
  return result / total;
}

std::string in_blocks() {
  for (const int64_t block : {7, 3, 2, 1}) {
    const Heads h = heads(kLength);
    const std::string what = "With blocks of " + std::to_string(block) + " the result";
    const Tensor got = exercise::attention_in_blocks(h.q, h.k, h.v, block);
    no_nan(got, what,
           block == kLength
               ? "Before the first block the largest score is minus infinity: exp(old - new) is 0, "
                 "and exp(new - old) is infinite."
               : "A block may bring a query nothing but minus infinity. The largest score so far "
                 "is that of all blocks, largest = maximum(largest, ..).");
    const auto with = [&](Slip slip) { return blocks_with(slip, h, block); };
    compare(what, got, right(h),
            {{with(Slip::nothing_adjusted),
              "The sums so far were not adjusted to the new largest score: multiply them by "
              "exp(old - new)."},
             {with(Slip::total_adjusted),
              "The total was adjusted to the new largest score, and the result was not."},
             {with(Slip::result_adjusted),
              "The result was adjusted to the new largest score, and the total was not."},
             {with(Slip::not_masked),
              "Every position sees those after it: their scores should be minus infinity."},
             {with(Slip::masked_from_0),
              "Keys are taken for those at the beginning: the third argument of comes_after() is "
              "the position of the block's first key."},
             {with(Slip::not_scaled), "The scores are not divided by sqrt(D)."},
             {with(Slip::divided_each),
              "The result is divided by the total in every block, and should be at the end, which "
              "is written already."}});
  }
  const Heads h = heads(kLength), large = {1000.0 * h.q, h.k, h.v};
  const Tensor got = exercise::attention_in_blocks(large.q, large.k, large.v, 2);
  no_nan(got, "With scores of some thousands the result",
         "exp() of a large score is infinite: subtract the largest score so far.");
  compare("With scores of some thousands the result", got, right(large), {});
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

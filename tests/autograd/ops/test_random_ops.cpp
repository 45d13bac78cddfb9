#include <cmath>

#include "support/catch.h"

#include <hero/autograd/ops.h>

using Catch::Matchers::ContainsSubstring;
using namespace hero;

namespace {

// How often each of `count` numbers occurs, over all.
std::vector<double> shares(const Tensor& x, int64_t count) {
  return (bincount(reshape(x, {-1}), {}, count).to(kFloat64) / static_cast<double>(x.numel()))
      .to_vector<double>();
}

// Five standard deviations of a share of n draws.
double spread(double p, double n) { return 5.0 * std::sqrt(p * (1.0 - p) / n); }

}  // namespace

TEST_CASE("multinomial draws each category in proportion to its weight") {
  manual_seed(1);
  const std::vector<double> weights = {1.0, 0.0, 5.0, 2.0};
  const Tensor p = tensor(weights);
  constexpr int64_t kDraws = 20000;
  const Tensor one = multinomial(p.expand({kDraws, 4}), 1);
  CHECK(to_string(one.shape()) == "[20000, 1]");
  CHECK(one.dtype() == kInt64);
  const Tensor many = multinomial(p, kDraws, true);
  CHECK(to_string(many.shape()) == "[20000]");
  for (const Tensor& drawn : {one, many}) {
    const auto found = shares(drawn, 4);
    for (size_t i = 0; i < 4; ++i) {
      CHECK(std::abs(found[i] - weights[i] / 8.0) <= spread(weights[i] / 8.0, kDraws));
    }
  }
}

TEST_CASE("multinomial without replacement draws no category twice, the first by its weight") {
  manual_seed(2);
  const Tensor p = tensor({1.0, 0.0, 5.0, 2.0}).expand({20000, 4});
  const Tensor drawn = multinomial(p, 3);
  CHECK(equal(sort(drawn, 1).values, tensor({0, 2, 3}).expand({20000, 3})));
  const auto first = shares(drawn.select(1, 0), 4);
  CHECK(std::abs(first[2] - 5.0 / 8.0) <= spread(5.0 / 8.0, 20000));
  // Given that 2 was first, 3 is second twice as often as 0.
  const Tensor after = masked_select(drawn.select(1, 1), drawn.select(1, 0) == 2);
  const double n = static_cast<double>(after.numel());
  CHECK(std::abs(shares(after, 4)[3] - 2.0 / 3.0) <= spread(2.0 / 3.0, n));
}

TEST_CASE("multinomial refuses weights that give no distribution") {
  CHECK_THROWS_WITH(multinomial(tensor({1.0, -1.0}), 1), ContainsSubstring("finite and not"));
  CHECK_THROWS_WITH(multinomial(tensor({0.0, 0.0}), 1), ContainsSubstring("all 0"));
  CHECK_THROWS_WITH(multinomial(tensor({1.0, std::nan("")}), 1),
                    ContainsSubstring("finite and not"));
  CHECK_THROWS_WITH(multinomial(tensor({1.0, 0.0}), 2), ContainsSubstring("from 1 probabilities"));
  CHECK_THROWS_WITH(multinomial(tensor({1.0, 1.0}), 3), ContainsSubstring("from 2 categories"));
  CHECK_THROWS_WITH(multinomial(tensor({1, 2}), 1), ContainsSubstring("int64"));
  CHECK(to_string(multinomial(zeros({2, 5}, {.device = kMeta}), 3).shape()) == "[2, 3]");
}

TEST_CASE("normal and the random writes have their means and deviations") {
  manual_seed(3);
  constexpr int64_t kCount = 40000;
  const auto near = [](const Tensor& x, double mean, double deviation) {
    CHECK(std::abs(x.mean().item() - mean) <= 5.0 * deviation / std::sqrt(double(kCount)));
    // The deviation of a sample's deviation is at most about twice sigma / sqrt(n) here.
    CHECK(std::abs(x.std().item() - deviation) <= 10.0 * deviation / std::sqrt(double(kCount)));
  };
  near(normal(3.0, 2.0, {kCount}), 3.0, 2.0);
  near(normal(full({kCount}, 3.0), 2.0), 3.0, 2.0);
  near(normal(3.0, full({kCount}, 2.0)), 3.0, 2.0);
  near(normal(full({1}, -1.0), full({kCount}, 0.5)), -1.0, 0.5);
  const Tensor x = empty({kCount});
  near(x.normal_(1.0, 3.0), 1.0, 3.0);
  near(x.uniform_(2.0, 5.0), 3.5, 3.0 / std::sqrt(12.0));
  CHECK(min(x).item() >= 2.0);
  CHECK(max(x).item() < 5.0);
  near(x.exponential_(4.0), 0.25, 0.25);
  near(x.bernoulli_(0.3), 0.3, std::sqrt(0.21));
  const Tensor n = empty({kCount}, {.dtype = kInt32});
  n.random_(-1, 2);
  CHECK(equal(unique(n).values, tensor({-1, 0, 1}, {.dtype = kInt32})));
  CHECK_THROWS_WITH(normal(0.0, -1.0, {2}), ContainsSubstring("negative: -1"));
  CHECK_THROWS_WITH(n.normal_(), ContainsSubstring("normal_: the tensor is int32"));
  CHECK_THROWS_WITH(n.to(kUInt8).random_(0, 300), ContainsSubstring("does not fit uint8"));
}

TEST_CASE("random writes follow the seed, write through views and end the history") {
  manual_seed(4);
  const Tensor a = empty({3, 4}).normal_();
  manual_seed(4);
  CHECK(equal(a, empty({3, 4}).normal_()));
  const Tensor whole = zeros({3, 4});
  whole.select(1, 2).uniform_(1.0, 2.0);
  CHECK(sum(whole > 0).item<int64_t>() == 3);
  const Tensor leaf = ones({3}, {.requires_grad = true});
  CHECK_THROWS_WITH(leaf.normal_(), ContainsSubstring("normal_: a leaf"));
  const Tensor y = leaf * 2.0;
  y.uniform_();
  sum(y).backward();
  CHECK(leaf.grad().to_vector<double>() == std::vector<double>{0, 0, 0});
}

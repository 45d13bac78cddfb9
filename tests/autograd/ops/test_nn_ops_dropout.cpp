#include <cmath>
#include <limits>

#include "support/catch.h"

#include <hero/autograd/autograd.h>
#include <hero/core/random.h>
#include <hero/core/thread_pool.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("dropout sets what it drops to 0, whatever it was, and keeps all else") {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(),
                   kInfinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {kFloat32, kFloat64, kBFloat16, kFloat16}) {
    for (const double value : {kNaN, kInfinity, -kInfinity, -1.0}) {
      const Tensor x = full({3, 700}, value, {.dtype = dtype}).t();
      manual_seed(1);
      const auto found = dropout(x, 0.25).to(kFloat64).contiguous().to_vector<double>();
      int64_t dropped = 0;
      for (const double each : found) {
        if (each == 0.0) {
          CHECK(!std::signbit(each));
          ++dropped;
        } else {
          CHECK((std::isnan(value) ? std::isnan(each) : (each < 0.0) == (value < 0.0)));
        }
      }
      CHECK(dropped > 400);
      CHECK(dropped < 650);
    }
  }
}

TEST_CASE("dropout does nothing in evaluation and at p = 0, and takes everything at p = 1") {
  const Tensor x = rand({10});
  CHECK(is_same(dropout(x, 0.5, false), x));
  CHECK(is_same(dropout(x, 0.0), x));
  CHECK(equal(dropout(x, 1.0), zeros({10})));
  CHECK_THROWS_WITH(dropout(x, 1.5), ContainsSubstring("dropout: p is outside [0, 1]: 1.5"));
  CHECK_THROWS_WITH(dropout(tensor({1, 2})), ContainsSubstring("dropout: x is int64"));
}

TEST_CASE("dropout keeps the fraction 1 - p of elements, scaled by 1 / (1 - p)") {
  manual_seed(11);
  constexpr int64_t kCount = 200000;
  for (const double p : {0.1, 0.5, 0.9}) {
    const std::vector<float> y = dropout(ones({kCount}), p).to_vector<float>();
    const auto scale = static_cast<float>(1.0 / (1.0 - p));
    int64_t kept = 0, wrong = 0;
    for (const float value : y) {
      wrong += value != 0.0f && value != scale ? 1 : 0;
      kept += value != 0.0f ? 1 : 0;
    }
    CHECK(wrong == 0);
    // Five standard deviations of a binomial count.
    const double deviation = std::sqrt(static_cast<double>(kCount) * p * (1.0 - p));
    CHECK(std::abs(static_cast<double>(kept) - (1.0 - p) * kCount) < 5.0 * deviation);
  }
}

TEST_CASE("dropout's mask depends on seed and call, not on threads or layout") {
  const Tensor x = ones({300, 257});
  manual_seed(5);
  const Tensor first = dropout(x), second = dropout(x);
  CHECK_FALSE(equal(first, second));
  for (const int threads : {1, 2, 3}) {
    const ThreadLimit limit(threads);
    manual_seed(5);
    CHECK(equal(dropout(x), first));
    CHECK(equal(dropout(x.t().contiguous().t()), second));
  }
}

TEST_CASE("dropout's gradient has the mask of its output, and so has the next") {
  const Tensor x = full({50}, 2.0, {.dtype = kFloat64, .requires_grad = true});
  const Tensor y = dropout(x, 0.25);
  const Tensor mask_and_scale = y.detach() / 2;
  const Tensor g = grad(sum(square(y)), x, {.create_graph = true});
  CHECK(allclose(g, y * mask_and_scale * 2, 1e-15));  // two roundings
  const Tensor second = grad(sum(g), x);
  CHECK(allclose(second, square(mask_and_scale) * 2, 1e-15));
}

TEST_CASE("a part of a batch has its part of the mask") {
  const std::pair<const char*, Tensor (*)(const Tensor&)> functions[] = {
      {"dropout", [](const Tensor& x) { return dropout(x, 0.5); }},
      {"dropout1d", [](const Tensor& x) { return dropout1d(x, 0.5); }},
      {"dropout2d", [](const Tensor& x) { return dropout2d(x.unsqueeze(3), 0.5); }},
      {"dropout3d",
       [](const Tensor& x) {
         return dropout3d(x.reshape({-1, 5, 3, 1, 1}), 0.5);
       }},
      {"alpha_dropout", [](const Tensor& x) { return alpha_dropout(x, 0.5, true); }},
      {"feature_alpha_dropout",
       [](const Tensor& x) { return feature_alpha_dropout(x, 0.5, true); }},
      {"rrelu", [](const Tensor& x) { return rrelu(x - 4.0, 0.1, 0.4, true); }},
      {"attention",
       [](const Tensor& x) { return scaled_dot_product_attention(x, x, x, {.dropout_p = 0.5}); }}};
  for (const auto& [name, function] : functions) {
    for (const DType dtype : {kFloat32, kFloat64, kBFloat16}) {
      CAPTURE(name, dtype);
      const Tensor example = (remainder(arange(15), 7) + 1).reshape({5, 3}).to(dtype);
      const Tensor whole = example.expand({6, 5, 3}).contiguous();
      const Tensor x = whole.clone().requires_grad_();
      manual_seed(9);
      const Tensor expected = function(x);
      sum(expected).backward();
      std::vector<Tensor> parts, gradients;
      for (int64_t rank = 0; rank < 3; ++rank) {
        const Tensor part = whole.slice(0, 2 * rank, 2 * rank + 2).clone().requires_grad_();
        manual_seed(9);
        batch_part() = {rank, 3};
        const Tensor y = function(part);
        batch_part() = {};
        sum(y).backward();  // outside, as behind a module's forward
        parts.push_back(y.detach());
        gradients.push_back(part.grad());
      }
      CHECK_FALSE(equal(parts[0], parts[1]));
      CHECK(equal(cat(parts), expected.detach()));
      CHECK(equal(cat(gradients), x.grad()));
    }
  }
  // Decisions that ranks take together are no part of a batch.
  manual_seed(9);
  const Tensor decided = rand({4});
  manual_seed(9);
  batch_part() = {1, 3};
  const Tensor other = rand({4});
  batch_part() = {};
  CHECK(equal(decided, other));
}

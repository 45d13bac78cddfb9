// Borders at which PyTorch was asked: infinities, empty batches, sizes of 1, numbers without
// dimensions, and dtypes narrower than sums.
#include <cmath>
#include <functional>
#include <limits>

#include "support/catch.h"

#include <hero/autograd/autograd.h>

using Catch::Matchers::ContainsSubstring;
using namespace hero;

namespace {

using Values = std::vector<double>;
using Integers = std::vector<int64_t>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("a weight of 1 interpolates to the end itself, however far the beginning is") {
  const Tensor a = tensor({1e8, 1.0, -2.0}), b = tensor({1.0, 3.0, 6.0});
  CHECK(lerp(a, b, 1.0).to_vector<double>() == Values{1, 3, 6});
  CHECK(lerp(a, b, 0.0).to_vector<double>() == Values{1e8, 1, -2});
  CHECK(lerp(a, b, tensor({1.0, 0.75, 0.25})).to_vector<double>() == Values{1, 2.5, 0});
  CHECK(a.clone().lerp_(b, 1.0).to_vector<double>() == Values{1, 3, 6});
  const Tensor half = tensor({1000.0}).to(kFloat16), end = tensor({0.1}).to(kFloat16);
  CHECK(equal(lerp(half, end, 1.0), end));
  const Tensor weight = tensor({1.0, 0.75, 0.25}, {.dtype = kFloat64, .requires_grad = true});
  const Tensor x = a.to(kFloat64).requires_grad_(), y = b.to(kFloat64).requires_grad_();
  CHECK(gradcheck([](const auto& in) { return lerp(in[0], in[1], in[2]); }, {x * 1e-7, y, weight}));
}

TEST_CASE("quantiles between an infinity and a number") {
  CHECK(quantile(tensor({-kInf, 2.0}), 0.5).item() == -kInf);
  CHECK(quantile(tensor({-kInf, 2.0}), 0.3, {.interpolation = Quantile::midpoint}).item() == -kInf);
  CHECK(quantile(tensor({-kInf, 0.0, 2.0}), 0.5).item() == 0.0);
}

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

TEST_CASE("of two NaN the first has the gradient of fmax and fmin") {
  const Tensor a = tensor({kNan, 1.0, kNan, 1.0}, {.requires_grad = true});
  const Tensor b = tensor({kNan, kNan, 1.0, 1.0}, {.requires_grad = true});
  for (const Tensor& y : {fmax(a, b), fmin(a, b)}) {
    CHECK(std::isnan(y.to_vector<double>()[0]));
    CHECK(slice(y, 0, 1).to_vector<double>() == Values{1, 1, 1});
    const std::vector<Tensor> slopes = grad({sum(y)}, {a, b});
    CHECK(slopes[0].to_vector<double>() == Values{1, 1, 0, 0.5});
    CHECK(slopes[1].to_vector<double>() == Values{0, 0, 1, 0.5});
  }
}

TEST_CASE("what is added in multiples is widened first") {
  const Tensor bytes = tensor({3, 2, 5}).to(kUInt8), whole = tensor({4, 5, -6}).to(kInt32);
  CHECK(add(whole, bytes, 300).to_vector<int64_t>() == Integers{904, 605, 1494});
  CHECK(sub(whole, bytes, 2).to_vector<int64_t>() == Integers{-2, 1, -16});
  for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64}) {
    const Tensor x = zeros({3}, dtype);
    const Tensor sum = add(x, bytes, -1);
    CHECK(sum.dtype() == dtype);
    CHECK(sum.to_vector<double>() == Values{-3, -2, -5});
    CHECK(x.clone().add_(bytes, -1).to_vector<double>() == Values{-3, -2, -5});
    const Tensor leaf = zeros({3}, dtype).requires_grad_();
    CHECK(leaf.clone().add_(bytes, -1).to_vector<double>() == Values{-3, -2, -5});
  }
  CHECK(add(bytes, ones({3}, kBool), 2).dtype() == kUInt8);
  const Tensor bits = tensor({true, false});
  CHECK(add(bits, bits, 2).dtype() == kBool);
  CHECK_THROWS_WITH(add(bytes, bytes, 0.5), ContainsSubstring("must be an integer"));
}

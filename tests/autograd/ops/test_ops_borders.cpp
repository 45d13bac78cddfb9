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

Values gradient_at(const Tensor& x, const std::function<Tensor(const Tensor&)>& of) {
  const Tensor leaf = x.detach().requires_grad_();
  return grad(sum(of(leaf)), leaf).to_vector<double>();
}

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

TEST_CASE("the greatest of zeros is 0 and not -0") {
  const Tensor zeros_norm = norm(zeros({3}), kInf);
  CHECK_FALSE(std::signbit(zeros_norm.item()));
  CHECK_FALSE(std::signbit(norm(tensor({-0.0, -0.0}), kInf).item()));
  CHECK_FALSE(std::signbit(cdist(ones({1, 2}), ones({1, 2}), kInf).item()));
  CHECK(norm(tensor({-3.0, 2.0}), kInf).item() == 3.0);
}

TEST_CASE("the derivative of logit is infinite at 0 and 1 and NaN outside of them") {
  const Values slopes =
      gradient_at(tensor({0.0, 1.0, 0.5, -1.0, 2.0}), [](const Tensor& x) { return logit(x); });
  CHECK(slopes[0] == kInf);
  CHECK(slopes[1] == kInf);
  CHECK(slopes[2] == 4.0);
  CHECK(std::isnan(slopes[3]));
  CHECK(std::isnan(slopes[4]));
  CHECK(gradient_at(tensor({0.25, 0.5}), [](const Tensor& x) { return x.clone().logit_(); }) ==
        gradient_at(tensor({0.25, 0.5}), [](const Tensor& x) { return logit(x); }));
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

TEST_CASE("integers far apart are not close") {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const Tensor a = tensor(Integers{kMost, kLeast, 0, 5, 7}),
               b = tensor(Integers{kLeast, kMost, kLeast, 6, 7});
  CHECK(isclose(a, b).to_vector<bool>() == std::vector<bool>{false, false, false, false, true});
  const Tensor narrow_a = tensor({2147483647, 0}).to(kInt32),
               narrow_b = tensor(Integers{-2147483648LL, -2147483648LL}).to(kInt32);
  CHECK_FALSE(any(isclose(narrow_a, narrow_b)).item<bool>());
  // Their difference is lost in double.
  const Tensor great = tensor(Integers{int64_t{1} << 53}),
               next = tensor(Integers{(int64_t{1} << 53) + 1});
  CHECK_FALSE(allclose(great, next, 0.0, 0.0));
  CHECK(allclose(great, next, 0.0, 1.0));
}

TEST_CASE("products added to narrow integers and bools keep the dtype") {
  for (const DType dtype : {kUInt8, kInt32, kInt64}) {
    const Tensor sum = addbmm(ones({1, 2}, dtype), ones({2, 1, 1}, dtype), ones({2, 1, 2}, dtype));
    CHECK(sum.dtype() == dtype);
    CHECK(sum.to_vector<int64_t>() == Integers{3, 3});
  }
  const Tensor bits = ones({2, 2}, kBool), row = ones({2}, kBool);
  CHECK(addr(bits, row, row, {.beta = 3, .alpha = 2}).dtype() == kBool);
  CHECK(bits.clone().addr_(row, row, {.beta = 3, .alpha = 2}).equal(bits));
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

TEST_CASE("logspace of integers cuts its ends first, vander of integers is int64") {
  CHECK(logspace(4.3, 1.2, 2, 10.0, {.dtype = kInt32}).to_vector<int64_t>() == Integers{10000, 10});
  CHECK(logspace(4.3, 2.0, 2, 2.0, {.dtype = kUInt8}).to_vector<int64_t>() == Integers{16, 4});
  const Tensor powers = vander(tensor({20}).to(kUInt8), 4, true);
  CHECK(powers.dtype() == kInt64);
  CHECK(powers.to_vector<int64_t>() == Integers{1, 20, 400, 8000});
}

TEST_CASE("tensordot repeats what has size 1") {
  const Tensor a = tensor({1.0, 2.0}, {.dtype = kFloat64}).reshape({1, 2}).requires_grad_();
  const Tensor b = arange(6, kFloat64).reshape({3, 2}).requires_grad_();
  const Tensor all = tensordot(a, b, Dims{0, 1}, Dims{0, 1});
  CHECK(all.item() == sum(a * b).item());
  CHECK(tensordot(b, a, Dims{0, 1}, Dims{0, 1}).item() == all.item());
  CHECK(gradcheck(
      [](const auto& in) {
        return tensordot(in[0], in[1], Dims{0, 1}, Dims{0, 1});
      },
      {a, b}));
  const Tensor bytes = ones({1, 2}, kUInt8);
  CHECK(tensordot(bytes, ones({3, 2}, kUInt8), Dims{0, 1}, Dims{0, 1}).dtype() == kUInt8);
  CHECK_THROWS_WITH(tensordot(ones({2, 2}), ones({3, 2}), Dims{0}, Dims{0}),
                    ContainsSubstring("sizes differ"));
}

TEST_CASE("the filling of a scatter_reduce without x has no gradient") {
  const Tensor x = tensor({1.0, 2.0, 3.0}, {.requires_grad = true});
  const Tensor src = tensor({7.0, 7.0, -kInf}, {.requires_grad = true}), index = tensor({0, 0, 1});
  const Tensor y = scatter_reduce(x, 0, index, src, ScatterReduce::amax, false);
  CHECK(y.to_vector<double>() == Values{7, -kInf, 3});
  const std::vector<Tensor> slopes = grad({sum(y)}, {x, src});
  CHECK(slopes[0].to_vector<double>() == Values{0, 0, 1});
  CHECK(slopes[1].to_vector<double>() == Values{0.5, 0.5, 1});
}

TEST_CASE("offsets of bags begin with 0, do not fall and end within the index") {
  const Tensor weight = ones({3, 2}), index = tensor({0, 1, 2});
  const auto of = [&](const Integers& offsets) {
    return embedding_bag(weight, index, {.offsets = tensor(offsets)});
  };
  CHECK(of({0, 3, 3}).shape() == Shape{3, 2});
  CHECK_THROWS_WITH(of({1, 2}), ContainsSubstring("the first offset must be 0: got 1"));
  CHECK_THROWS_WITH(of({0, 2, 1}), ContainsSubstring("offset 1 lies before the one in front"));
  CHECK_THROWS_WITH(of({0, 4}), ContainsSubstring("offset 4 lies behind the end, 3"));
  CHECK_THROWS_WITH(of({-1, 2}), ContainsSubstring("offset -1 lies before"));
}

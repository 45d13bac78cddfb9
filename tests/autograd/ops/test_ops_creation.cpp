#include <algorithm>
#include <cmath>

#include "support/catch.h"

#include <hero/autograd/functions/gradcheck.h>
#include <hero/autograd/ops.h>
#include <hero/autograd/ops/autocast.h>
#include <hero/core/random.h>

using namespace hero;
using Catch::Matchers::ContainsSubstring;
using Values = std::vector<double>;
using Integers = std::vector<int64_t>;

TEST_CASE("tensor: rows of one element are rows") {
  CHECK(tensor({{1.0}, {2.0}}).shape() == Shape{2, 1});
  CHECK(tensor({{1.0F}}).shape() == Shape{1, 1});
  CHECK(tensor({{1}, {2}, {3}}).shape() == Shape{3, 1});
  CHECK(tensor({{true}}, {.dtype = kFloat32}).shape() == Shape{1, 1});
  CHECK(tensor({1.0}).shape() == Shape{1});
  CHECK(tensor({{1.0, 2.0}}).shape() == Shape{1, 2});
}

TEST_CASE("arange counts like PyTorch's, in integers and in floats") {
  CHECK(arange(4).to_vector<int64_t>() == Integers{0, 1, 2, 3});
  CHECK(arange(4).dtype() == kInt64);
  CHECK(arange(5, 0, -2).to_vector<int64_t>() == Integers{5, 3, 1});
  CHECK(arange(0.0, 1.0, 0.25).to_vector<double>() == Values{0, 0.25, 0.5, 0.75});
  CHECK(arange(2.5).dtype() == kFloat32);
  CHECK(arange(2.5).numel() == 3);
  CHECK(arange(3, 3).numel() == 0);
  CHECK(arange(3, {.dtype = kFloat64}).dtype() == kFloat64);
  CHECK_THROWS_WITH(arange(0, 5, 0), ContainsSubstring("arange: the step is 0"));
  CHECK_THROWS_WITH(arange(0, 5, -1), ContainsSubstring("leads away"));
  CHECK_THROWS_WITH(arange(0.0, std::nan("")), ContainsSubstring("must be finite"));
}

TEST_CASE("linspace meets both ends") {
  const Tensor x = linspace(-1.0, 1.0, 5);
  CHECK(x.to_vector<double>() == Values{-1, -0.5, 0, 0.5, 1});
  CHECK(linspace(0.0, 0.1, 7, {.dtype = kFloat64}).to_vector<double>().back() == 0.1);
  CHECK(linspace(3.0, 4.0, 1).to_vector<double>() == Values{3});
  CHECK(linspace(3.0, 4.0, 0).numel() == 0);
  CHECK_THROWS_WITH(linspace(0.0, 1.0, -1), ContainsSubstring("negative"));
}

TEST_CASE("eye and one_hot") {
  CHECK(eye(2, 3).to_vector<double>() == Values{1, 0, 0, 0, 1, 0});
  CHECK(eye(0).numel() == 0);
  CHECK(one_hot(tensor({2, 0}), 3).to_vector<int64_t>() == Integers{0, 0, 1, 1, 0, 0});
  CHECK(to_string(one_hot(tensor({{1, 3}})).shape()) == "[1, 2, 4]");
  CHECK(to_string(one_hot(tensor({1}).select(0, 0), 2).shape()) == "[2]");
  CHECK_THROWS_WITH(one_hot(tensor({0, 3}), 3),
                    ContainsSubstring("one_hot: index 3 at position [1] is out of range"));
}

TEST_CASE("random tensors repeat with the seed and differ from call to call") {
  manual_seed(3);
  const Tensor a = randn({4, 5}), b = randn({4, 5});
  manual_seed(3);
  CHECK(equal(randn({4, 5}), a));
  CHECK(equal(randn_like(b), b));
  CHECK_FALSE(equal(a, b));
  // A planned tensor takes its place in the sequence.
  manual_seed(3);
  randn({4, 5}, {.device = kMeta});
  CHECK(equal(randn({4, 5}), b));
}

TEST_CASE("random tensors lie where they should") {
  manual_seed(1);
  const Tensor u = rand({1000});
  CHECK(all(logical_and(u >= 0, u < 1)).item<bool>());
  const Tensor i = randint(-2, 3, {1000});
  CHECK(i.dtype() == kInt64);
  CHECK(amin(i).item<int64_t>() == -2);
  CHECK(amax(i).item<int64_t>() == 2);
  Integers order = randperm(100).to_vector<int64_t>();
  CHECK_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  CHECK(order == arange(100).to_vector<int64_t>());
  const Tensor p = tensor({0.0, 1.0, 0.5}).unsqueeze(1).expand({3, 2000});
  const Values hits = mean(bernoulli(p), {1}).to_vector<double>();
  CHECK(hits[0] == 0);
  CHECK(hits[1] == 1);
  // Six standard deviations of 2000 fair draws.
  CHECK(std::abs(hits[2] - 0.5) < 6 * 0.5 / std::sqrt(2000.0));
  CHECK_THROWS_WITH(bernoulli(tensor({1.5})), ContainsSubstring("outside [0, 1]"));
  CHECK_THROWS_WITH(randint(2, 2, {1}), ContainsSubstring("no integer"));
  CHECK_THROWS_WITH(rand({1}, {.dtype = kInt64}), ContainsSubstring("floating dtype"));
}

TEST_CASE("einsum of elements that share no row or column sums products in the order of sum") {
  const auto values = [](const Tensor& x) { return x.to(kFloat64).to_vector<double>(); };
  for (const DType dtype : {kFloat32, kFloat64}) {
    manual_seed(4);
    const Tensor a = randn({3, 7, 150}, {.dtype = dtype}).detach().requires_grad_();
    const Tensor b = randn({150, 3, 7}, {.dtype = dtype}).detach().requires_grad_();
    const Tensor turned = b.permute({1, 2, 0}), g = randn({7, 3}, {.dtype = dtype});
    const Tensor found = einsum("bij,jbi->ib", {a, b}), expected = sum(a * turned, {2}).t();
    CHECK(values(found) == values(expected));
    const auto grads = grad({found}, {a, b}, {.grad_outputs = {g}});
    const auto wanted = grad({expected}, {a, b}, {.grad_outputs = {g}});
    for (size_t i = 0; i < 2; ++i) CHECK(values(grads[i]) == values(wanted[i]));
    CHECK(einsum("bij,bij->b", {a, turned}).shape() == Shape{3});
  }
  CHECK(values(einsum("bi,bi->b", {zeros({3, 0}), zeros({3, 0})})) == Values(3, 0.0));
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}}, {.dtype = kFloat64, .requires_grad = true});
  const TensorFunction rows = [](const std::vector<Tensor>& t) {
    return einsum("ij,ij->i", {t[0], square(t[0])});
  };
  CHECK_NOTHROW(gradgradcheck(rows, {x}));
  const Autocast autocast;
  CHECK(einsum("ij,ij->i", {ones({2, 3}), ones({2, 3})}).dtype() == autocast_options().dtype);
}

TEST_CASE("einsum reads ellipses, diagonals and implicit outputs as NumPy does") {
  const Tensor a = tensor({{1.0, 2.0}, {3.0, 4.0}});
  CHECK(einsum("ii", {a}).item() == 5);
  CHECK(einsum("ji", {a}).to_vector<double>() == Values{1, 3, 2, 4});
  CHECK(einsum("i...->...", {a}).to_vector<double>() == Values{4, 6});
  CHECK(einsum(" i j , j -> i ", {a, tensor({1.0, 10.0})}).to_vector<double>() == Values{21, 43});
  CHECK(einsum("ij,ij", {a, a}).item() == 30);
  CHECK(einsum("ij,jk->ik", {zeros({2, 0}), zeros({0, 3})}).to_vector<double>() == Values(6, 0.0));
  CHECK(einsum("ij,kj->ik", {tensor({{1, 2}}), tensor({{3, 4}})}).item<int64_t>() == 11);
  CHECK_THROWS_WITH(einsum("ij,jk", {a}), ContainsSubstring("2 terms for 1 operands"));
  CHECK_THROWS_WITH(einsum("ijk", {a}), ContainsSubstring("does not have the dimensions"));
  CHECK_THROWS_WITH(einsum("ij->k", {a}), ContainsSubstring("index k of the output"));
  CHECK_THROWS_WITH(einsum("ij->ii", {a}), ContainsSubstring("twice in the output"));
  CHECK_THROWS_WITH(einsum("i,i", {tensor({1.0, 2.0}), tensor({1.0, 2.0, 3.0})}),
                    ContainsSubstring("index i has the sizes 2 and 3"));
  CHECK_THROWS_WITH(einsum("i.j", {a}), ContainsSubstring("stray '.'"));
  CHECK_THROWS_WITH(einsum("i1", {a}), ContainsSubstring("unexpected '1'"));
}

TEST_CASE("tensor takes lists of numbers of several types") {
  const float inf = INFINITY;
  const int64_t large = (int64_t{1} << 53) + 1;
  const int one = 1;
  const auto is = [](const Tensor& found, const Tensor& expected) {
    return found.dtype() == expected.dtype() && equal(found, expected);
  };
  // As of doubles where one is floating: float32, or with all digits in float64.
  CHECK(is(tensor({1.0, INFINITY}), tensor({1.0, double(inf)})));
  CHECK(is(tensor({1.0, 2.0f}), tensor({1.0, 2.0})));
  CHECK(is(tensor({1.0, 1}), tensor({1.0, 1.0})));
  CHECK(is(tensor({one, 0.5f, true, large}), tensor({1.0, 0.5, 1.0, double(large)})));
  CHECK(std::isnan(tensor({1.0, NAN, 3.0})[1].item()));
  const TensorOptions wide{.dtype = kFloat64};
  CHECK(is(tensor({0.1, -INFINITY, 1}, wide), tensor({0.1, -double(inf), 1.0}, wide)));
  CHECK(tensor({0.1, 2.0f}, wide)[0].item() == 0.1);
  CHECK(is(tensor({0.25, 2.0f}, {.dtype = kFloat16}), tensor({0.25, 2.0}, {.dtype = kFloat16})));
  CHECK(tensor({1.0, 2.0f}, {.requires_grad = true}).requires_grad());
  // Integers keep all their bits.
  CHECK(is(tensor({one, large, true}), tensor({int64_t{1}, large, int64_t{1}})));
  CHECK(is(tensor({{1.0, 2.0f}, {3.0, 4.0}}), tensor({{1.0, 2.0}, {3.0, 4.0}})));
  CHECK(is(tensor({{1.0, INFINITY}, {1.0f, 4.0f}}), tensor({{1.0, double(inf)}, {1.0, 4.0}})));
  CHECK(is(tensor({{one, 2}, {3, 4}}), tensor({{1, 2}, {3, 4}})));
  CHECK_THROWS_WITH(tensor({{1.0, 2.0f}, {3.0}}), ContainsSubstring("rows of different lengths"));
  // A list of one type is what it was.
  CHECK(tensor({true, false}).dtype() == kBool);
  CHECK(tensor({1, 2}).dtype() == kInt64);
  CHECK(tensor({1.0f}).shape() == Shape{1});
}
